"""Changes of a recipe that only training can measure: each changes one stage, or the pool."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.diagnose.knobs.expressions import renamed, sizes_of, with_nominator, with_size, without_stage
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.errors import ConfigError
from shortlist.grammar import Nominator, Scorer, Selector, Stage
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import TYPES, Recipe, Recommender
from shortlist.pipeline.about import TrainingHistory
from shortlist.pipeline.expression import names_in
from shortlist.pipeline.recipe import toml_value
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.train.rankers.ranker import RankerTrainer
from shortlist.train.references import stages_used
from shortlist.train.registry import TRAINERS, trainer_of
from shortlist.train.tree.trainer import TreeTrainer

MODES = ("original", "harmonised", "mixed")
NEGATIVES = ("catalogue", "candidates", "both")
BRANCHES = (2, 4, 8)
RANKERS = ("feature-ranker", "boosted-ranker", "blend-ranker")  # with the same inputs
ADDED = {
    "covisit": "co-visit",
    "ease": "ease",
    "sasrec": "sasrec",
}  # by name, nominators that a pool may lack
LIMIT = 100  # items of a nominator that is added
LONGER = 5  # times as many epochs
ENOUGH = 10  # epochs after which early stopping is believed
ORDER = ("epochs", "nominator", "cut", "limits", "type", "removed", "start", "mode", "negatives", "branch")


@dataclass(frozen=True)
class Variant:
    """A recipe with one change; `settings` are those of `--set`."""

    stage: str
    knob: str
    setting: str
    settings: Mapping[str, Any]
    recipe: Recipe  # without the change

    @property
    def changed(self) -> Recipe:
        """The recipe with the change."""
        return with_settings(self.recipe, self.settings)

    @property
    def options(self) -> str:
        """The options of `shortlist train` that make the change."""
        return " ".join(f"--set {shlex.quote(f'{key}={_value(one)}')}" for key, one in self.settings.items())

    def result(
        self,
        gain: Estimate | None = None,
        why: str | None = None,
        seconds: float | None = None,
        p_value: float | None = None,
    ) -> KnobResult:
        """As a knob of the diagnosis; without a gain it was not measured."""
        return KnobResult(
            self.stage,
            self.knob,
            self.setting,
            gain,
            None,
            needs_training=True,
            why=why,
            seconds=seconds,
            p_value=p_value,
            options=self.options,
        )


def variants(
    recipe: Recipe | None, pool: str = "pool", histories: Mapping[str, TrainingHistory] | None = None
) -> tuple[Variant, ...]:
    """The changes that --retrain trains and measures, those that most often gain first; `pool` is its first step."""
    if recipe is None:
        return ()
    found = [*_of_pool(recipe, pool)]
    for name in recipe.stages:
        found += _of_stage(recipe, name, (histories or {}).get(name))
    return tuple(sorted(found, key=lambda variant: ORDER.index(variant.knob)))


def check_variants(bundle: Recommender, settings: Mapping[str, Any] | None = None) -> tuple[Variant, ...]:
    """The variants of a bundle, or the one with these settings; refused if it holds no recipe."""
    if bundle.recipe is None:
        raise ConfigError(
            f"{bundle.about.name}: holds no recipe, so it cannot be trained again; make it with `shortlist train`"
        )
    if settings:
        return (chosen(bundle.recipe, settings),)
    return variants(bundle.recipe, bundle.pipeline.stages[0].title, bundle.about.training)


def chosen(recipe: Recipe, settings: Mapping[str, Any]) -> Variant:
    """The change that the caller asks for."""
    with_settings(recipe, settings)  # a wrong key is refused before any training
    first = next(iter(settings)).split(".")
    stage = first[1] if first[0] == "stages" else "all stages"
    text = ", ".join(f"{key}={_value(one)}" for key, one in settings.items())
    return Variant(stage, "settings", text, settings, recipe)


def _of_pool(recipe: Recipe, pool: str) -> Iterator[Variant]:
    """One more nominator; all limits doubled."""
    types = {one.type for one in recipe.stages.values()}
    for name, kind in ADDED.items():
        free = name if name not in recipe.stages else f"{name}_added"
        if kind not in types and free not in recipe.stages:
            settings = {f"stages.{free}.type": kind, **_unseen(free, kind)}
            settings["pipeline"] = with_nominator(recipe.expression, free, LIMIT)
            yield Variant(pool, "nominator", f"{kind} % {LIMIT}", settings, recipe)
    sizes = {name: size for name, size in sizes_of(recipe.expression).items() if _is(recipe, name, Nominator)}
    if sizes and len(recipe.stages) > len(_of_kind(recipe, Nominator)):
        wider = recipe.expression
        for name, size in sizes.items():
            wider = with_size(wider, name, 2 * size)
        yield Variant(pool, "limits", "doubled", {"pipeline": wider}, recipe)


def _of_stage(recipe: Recipe, name: str, history: TrainingHistory | None) -> Iterator[Variant]:
    trainer = _trainer(recipe, name)
    yield from _longer(recipe, name, trainer, history)
    yield from _cut(recipe, name)
    yield from _other_types(recipe, name)
    yield from _left_out(recipe, name)
    choices: list[tuple[str, tuple[Any, ...], Any]] = []
    if getattr(trainer, "start", ""):
        choices = [("start", ("",), None)]
    if isinstance(trainer, RankerTrainer):
        choices += [("mode", MODES, trainer.mode), ("negatives", NEGATIVES, trainer.negatives)]
    elif isinstance(trainer, TreeTrainer):
        choices += [("branch", BRANCHES, trainer.plan().branch)]
    for knob, values, current in choices:
        for value in values:
            if value != current:
                settings = {f"stages.{name}.train.{knob}": value}
                yield Variant(name, knob, str(value) or "none", settings, recipe)


def _longer(recipe: Recipe, name: str, trainer: object, history: TrainingHistory | None) -> Iterator[Variant]:
    """More epochs, unless early stopping ended the training."""
    epochs = getattr(trainer, "epochs", None)
    stopped = history is not None and bool(history.converged) and history.max_epochs >= ENOUGH
    if isinstance(epochs, int) and not stopped:
        value = LONGER * epochs
        yield Variant(name, "epochs", str(value), {f"stages.{name}.train.epochs": value}, recipe)


def _cut(recipe: Recipe, name: str) -> Iterator[Variant]:
    """A scorer before the last step passes on twice as many candidates."""
    size = sizes_of(recipe.expression).get(name)
    if size is None or not _is(recipe, name, Scorer) or name == _steps(recipe)[-1]:
        return
    settings = {"pipeline": with_size(recipe.expression, name, 2 * size)}
    yield Variant(name, "cut", str(2 * size), settings, recipe)


def _other_types(recipe: Recipe, name: str) -> Iterator[Variant]:
    """A ranker of another type with its default settings."""
    own = recipe.stages[name].type
    for kind in RANKERS if own in RANKERS else ():
        new = f"{name}_{kind.partition('-')[0]}"
        if kind != own and kind in TYPES and new not in recipe.stages:
            settings = {f"stages.{new}.type": kind, "pipeline": renamed(recipe.expression, name, new)}
            yield Variant(name, "type", kind, settings, recipe)


def _left_out(recipe: Recipe, name: str) -> Iterator[Variant]:
    """A nominator, a scorer before another one or a selector left out, unless another stage uses it."""
    used = any(name in stages_used(recipe, other) for other in recipe.stages)
    scorers = _of_kind(recipe, Scorer)
    free = _is(recipe, name, Nominator | Selector) or (name in scorers and name != scorers[-1])
    shorter = without_stage(recipe.expression, name) if free and not used else None
    if shorter is not None:
        yield Variant(name, "removed", "left out", {"pipeline": shorter}, recipe)


def _unseen(name: str, kind: str) -> dict[str, Any]:
    """A nominator that is added wastes no place on items of the history."""
    known = {one.name for one in TYPES[kind].declared()}
    return {f"stages.{name}.exclude_seen": True} if "exclude_seen" in known else {}


def _trainer(recipe: Recipe, name: str) -> object:
    config = recipe.stages[name]
    return trainer_of(config.type, config.train, f"{recipe.path}: [stages.{name}.train]", TRAINERS, TYPES)


def _of_kind(recipe: Recipe, kind: Any) -> list[str]:
    """The stages of a kind, in the order of the expression."""
    return [name for name in _steps(recipe) if _is(recipe, name, kind)]


def _steps(recipe: Recipe) -> list[str]:
    """All stages, in the order of the expression."""
    return names_in(recipe.expression)


def _is(recipe: Recipe, name: str, kind: Any) -> bool:
    known: type[Stage] = TYPES[recipe.stages[name].type]
    return issubclass(known, kind)


def _value(value: object) -> str:
    return value if isinstance(value, str) and value else toml_value(value)
