"""Knobs that need training: the recipe of a bundle trained again with one change, measured on the same users."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from shortlist.data import Dataset, Split
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.sample import UserSample, hits_per_request
from shortlist.errors import ConfigError, DataError
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import Recipe, Recommender
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized
from shortlist.progress import Labelled, Progress, silent
from shortlist.train.pipeline import train_pipeline
from shortlist.train.rankers.ranker import RankerTrainer
from shortlist.train.registry import TRAINERS, trainer_of
from shortlist.train.tree.trainer import TreeTrainer

MODES = ("original", "harmonised", "mixed")
NEGATIVES = ("catalogue", "candidates", "both")
BRANCHES = (2, 4, 8)
RANKERS = tuple(name for name, kind in TRAINERS.items() if issubclass(kind, RankerTrainer))


@dataclass(frozen=True)
class Variant:
    """A recipe in which one stage is trained with another setting."""

    stage: str
    knob: str
    setting: str
    recipe: Recipe

    def result(self, gain: Estimate | None = None, why: str | None = None) -> KnobResult:
        """As a knob of the diagnosis; without a gain it was not measured."""
        return KnobResult(self.stage, self.knob, self.setting, gain, None, needs_training=True, why=why)


def variants(recipe: Recipe | None) -> tuple[Variant, ...]:
    """The settings that --retrain trains and measures: modes and negatives of rankers, branching factors of trees."""
    if recipe is None:
        return ()
    return tuple(variant for name in recipe.stages for variant in _of_stage(recipe, name))


def check_variants(bundle: Recommender) -> tuple[Variant, ...]:
    """The variants of a bundle; refused if it has none."""
    if bundle.recipe is None:
        raise ConfigError(
            f"{bundle.about.name}: holds no recipe, so it cannot be trained again; make it with `shortlist train`"
        )
    found = variants(bundle.recipe)
    if not found:
        raise ConfigError(
            f"{bundle.about.name}: --retrain needs a ranker with training modes ({', '.join(RANKERS)}) or a tree, and "
            "the recipe has neither; leave --retrain out"
        )
    return found


def _of_stage(recipe: Recipe, name: str) -> Iterator[Variant]:
    trainer = _trainer(recipe, name)
    choices: list[tuple[str, tuple[Any, ...], Any]] = []
    if isinstance(trainer, RankerTrainer):
        choices = [("mode", MODES, trainer.mode), ("negatives", NEGATIVES, trainer.negatives)]
    elif isinstance(trainer, TreeTrainer):
        choices = [("branch", BRANCHES, trainer.plan().branch)]
    for knob, values, current in choices:
        for value in values:
            if value != current:
                yield Variant(name, knob, str(value), _changed(recipe, name, knob, value))


def _trainer(recipe: Recipe, name: str) -> object:
    config = recipe.stages[name]
    where = f"{recipe.path}: [stages.{name}.train]"
    return trainer_of(config.type, config.train, where) if config.type in TRAINERS else None


def _changed(recipe: Recipe, name: str, knob: str, value: object) -> Recipe:
    config = recipe.stages[name]
    changed = replace(config, train={**config.train, knob: value})
    return replace(recipe, stages={**recipe.stages, name: changed})


def retrain_variants(
    tried: tuple[Variant, ...],
    bundle: Recommender,
    data: Dataset,
    split: Split,
    sample: UserSample,
    progress: Progress = silent,
    k: int | None = None,
) -> tuple[KnobResult, ...]:
    """Train every variant on the split and with the seed of the bundle, and measure it on the same users.

    Slates have `k` items, or as many as the pipeline returns.
    The interval is over users; it does not include the variation between training seeds.
    """
    before = hits_per_request(resized(offline(bundle.pipeline), k), sample)
    results = []
    for number, variant in enumerate(tried, start=1):
        label = f"training {number} of {len(tried)} ({variant.stage}: {variant.knob} = {variant.setting}): "
        try:
            made = train_pipeline(variant.recipe, data, bundle.about.seed, split, Labelled(progress, label))
        except (ConfigError, DataError) as error:
            results.append(variant.result(why=" ".join(str(error).split())))
            continue
        hits = hits_per_request(resized(offline(made.pipeline), k), sample)
        results.append(variant.result(sample.recall(hits - before)))
    return tuple(results)
