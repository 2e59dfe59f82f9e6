"""Knobs that need training: the recipe of a bundle trained again with one thing changed, asked for the same users."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shortlist.artifact.store import load
from shortlist.data import Dataset
from shortlist.diagnose.sample import UserSample, returned
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline import Recipe, Recommender, parse_recipe
from shortlist.progress import Progress
from shortlist.train import train
from shortlist.train.rankers.ranker import NEGATIVES, RankerTrainer
from shortlist.train.registry import TRAINERS
from shortlist.train.tree.plan import TreePlan
from shortlist.train.tree.trainer import TreeTrainer

RECIPE = "recipe.toml"
MODES = ("original", "harmonised", "mixed")
BRANCHES = (2, 4, 8)
RANKERS = tuple(name for name, kind in TRAINERS.items() if issubclass(kind, RankerTrainer))


@dataclass(frozen=True)
class Trial:
    """A recipe in which one stage is trained with another setting."""

    stage: str
    label: str
    setting: str
    recipe: Recipe

    def knob(self, gain: Mapping[str, Any] | None = None, why: str | None = None) -> dict[str, Any]:
        """As a knob of the diagnosis; without a gain it was not turned."""
        told = {"stage": self.stage, "label": self.label, "setting": self.setting, "gain": gain}
        return told | {"candidates": None, "needs_training": True} | ({"why": why} if why else {})


def recipe_of(bundle: Path) -> Recipe:
    """What a bundle was trained from."""
    artifact = load(bundle)
    if RECIPE not in artifact:
        raise ConfigError(
            f"{bundle}: holds no {RECIPE}, so it cannot be trained again; make it with `shortlist train`"
        )
    return parse_recipe(artifact.text(RECIPE), f"{bundle}/{RECIPE}")


def has_recipe(bundle: Path) -> bool:
    """Whether a bundle can be trained again."""
    return RECIPE in load(bundle)


def trials(recipe: Recipe) -> tuple[Trial, ...]:
    """Every change worth a training: other modes and negatives of rankers, other branches of trees."""
    return tuple(trial for name in recipe.stages for trial in _of_stage(recipe, name))


def tree_plans(bundle: Path) -> dict[str, TreePlan]:
    """How the trees of a bundle were taught, by name; none where it keeps no recipe."""
    if not has_recipe(bundle):
        return {}
    recipe = recipe_of(bundle)
    makers = {name: _trainer(recipe, name) for name in recipe.stages}
    return {name: one.plan() for name, one in makers.items() if isinstance(one, TreeTrainer)}


def _of_stage(recipe: Recipe, name: str) -> Iterator[Trial]:
    trainer = _trainer(recipe, name)
    choices: list[tuple[str, tuple[Any, ...], Any]] = []
    if isinstance(trainer, RankerTrainer):
        choices = [("mode", MODES, trainer.mode), ("negatives", NEGATIVES, trainer.negatives)]
    elif isinstance(trainer, TreeTrainer):
        choices = [("branch", BRANCHES, trainer.plan().branch)]
    for label, values, now in choices:
        for value in values:
            if value != now:
                yield Trial(name, label, str(value), _changed(recipe, name, label, value))


def _trainer(recipe: Recipe, name: str) -> object:
    one = recipe.stages[name]
    told = {key: tuple(value) if isinstance(value, list) else value for key, value in one.train.items()}
    return TRAINERS[one.type](**told) if one.type in TRAINERS else None


def _changed(recipe: Recipe, name: str, label: str, value: object) -> Recipe:
    one = recipe.stages[name]
    return replace(recipe, stages={**recipe.stages, name: replace(one, train={**one.train, label: value})})


def retrained(
    tries: tuple[Trial, ...],
    recommender: Recommender,
    dataset: Dataset,
    seed: int,
    asked: UserSample,
    tell: Progress,
) -> list[dict[str, Any]]:
    """Train every trial on the split and with the seed of the bundle, and ask it for the same users.

    The interval is over users; how much another seed of training would change is not in it.
    """
    split = dataset.split(**recommender.about["split"])
    before = returned(recommender.pipeline, asked)
    knobs = []
    for number, trial in enumerate(tries, start=1):
        label = f"training {number} of {len(tries)} ({trial.stage}: {trial.label} = {trial.setting}): "
        try:
            made = train(trial.recipe, dataset, seed, split, _labelled(tell, label))
        except (ConfigError, DataError) as error:
            knobs.append(trial.knob(why=" ".join(str(error).split())))
            continue
        gain = asked.share(returned(made.pipeline, asked) - before)
        knobs.append(trial.knob(gain.as_dict()))
    return knobs


def _labelled(tell: Progress, label: str) -> Progress:
    return lambda what, done, total: tell(label + what, done, total)
