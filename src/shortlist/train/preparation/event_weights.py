"""Weights of events: a trainer uses them, or a log with unequal weights is refused; they are never ignored.

`uses_weights` of a trainer is True where training follows the weights, None where it reads nothing that a weight could
change, and False, the default, where a log with unequal weights must be refused.
"""

from collections.abc import Mapping
from typing import Any

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.pipeline import Recipe
from shortlist.settings import Setting
from shortlist.train.context import TrainContext

WEIGHTS = Setting(
    "weights",
    str,
    "use",
    "Weights of events: use them, or count every event once (implicit).",
    choices=("use", "implicit"),
)
"""A key of `[stages.NAME.train]` of every type."""


def uses_weights(trainer: object) -> bool | None:
    """Whether a trainer, or a trainer class, follows the weights of events; None if they cannot change its stage."""
    found: bool | None = getattr(trainer, "uses_weights", False)
    return found


def check_event_weights(recipe: Recipe, trainers: Mapping[str, object], events: Interactions) -> None:
    """Refuse a recipe on events with unequal weights that one of its trainers would ignore."""
    for name, trainer in trainers.items():
        if _mode(recipe, name) == "use" and events.strengths is not None and uses_weights(trainer) is False:
            raise ConfigError(_refusal(recipe, name, trainer, events))


def with_weights(context: TrainContext, recipe: Recipe, name: str) -> TrainContext:
    """What the trainer of a stage gets: every event has weight 1 with `weights = "implicit"`."""
    weighted = context.events.strengths is not None or any(one.weights is not None for one in context.batches)
    return context.unweighted() if weighted and _mode(recipe, name) == "implicit" else context


def _mode(recipe: Recipe, name: str) -> Any:
    return recipe.stages[name].train.get(WEIGHTS.name, WEIGHTS.default)


def _refusal(recipe: Recipe, name: str, trainer: object, events: Interactions) -> str:
    low, high = events.weights.min(), events.weights.max()
    return (
        f"{recipe.where(name)}: {type(trainer).__name__} does not use weights of events, and those of this log are "
        f'between {low:g} and {high:g}; count every event once for this stage with weights = "implicit" in '
        f"[stages.{name}.train] (--set stages.{name}.train.weights=implicit), or for all stages with "
        "`shortlist data prepare --weights implicit`"
    )
