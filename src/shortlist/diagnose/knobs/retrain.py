"""Retraining: the recipe of a bundle trained again, as it is and with one change at a time, on the same users.

A change is compared with the recipe trained again as it is, so what training again alone brings is no part of its gain.
Stages that a change does not reach are not fitted again.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from shortlist.data import Dataset, Split
from shortlist.diagnose.knobs.expressions import first_step, without_stage
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.knobs.rewritten import replace_stage
from shortlist.diagnose.knobs.variants import Variant
from shortlist.diagnose.sample import UserSample, hits_per_request
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Filter, Nominator, Pipeline, Stage, leaves
from shortlist.metrics.significance import paired
from shortlist.pipeline import TYPES, Recipe, Recommender
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recipe import StageConfig
from shortlist.pipeline.recommender import resized
from shortlist.progress import Labelled, Progress, silent
from shortlist.train.folds import Folds
from shortlist.train.pipeline import TrainedPipeline, train_pipeline

MINUTES = 10.0
ALL = "all stages"
NO_TIME = "no time left"


def retrain_variants(
    tried: tuple[Variant, ...],
    bundle: Recommender,
    data: Dataset,
    split: Split,
    sample: UserSample,
    progress: Progress = silent,
    k: int | None = None,
    minutes: float = MINUTES,
    folder: Path | None = None,
) -> tuple[KnobResult, ...]:
    """Train on the split and with the seed of the bundle, and measure on the same users; slates have `k` items.

    First the recipe as it is, whose stages are put into the bundle one by one; then every variant for which there is
    time. The intervals are over users; they do not include the variation between training seeds. Fitted stages are kept
    in `folder`, for later calls, or in a temporary one.
    """
    assert bundle.recipe is not None
    with TemporaryDirectory(prefix="shortlist-") as temporary:
        own = Path(temporary) if folder is None else folder
        work = _Retraining(bundle, data, split, sample, progress, k, own, minutes)
        began = time.perf_counter()
        base = work.fit(bundle.recipe, "training as it is: ")
        results = [*work.fitted_again(base)]
        for number, variant in enumerate(tried, start=1):
            spent = time.perf_counter() - began
            results.append(work.measured(variant, base, spent, f"training {number} of {len(tried)}"))
    return tuple(results)


@dataclass(frozen=True, eq=False)
class _Base:
    """A trained pipeline, its hits per request [C], and the seconds its training took."""

    trained: TrainedPipeline
    hits: Ints
    seconds: float

    @property
    def pipeline(self) -> Pipeline:
        return self.trained.recommender.pipeline


@dataclass(frozen=True, eq=False)
class _Retraining:
    """What all trainings have in common; `folder` holds the stages fitted so far."""

    bundle: Recommender
    data: Dataset
    split: Split
    sample: UserSample
    progress: Progress
    k: int | None
    folder: Path
    minutes: float

    def fit(self, recipe: Recipe, label: str, folds: Folds | None = None) -> _Base:
        """The pipeline of a recipe."""
        began = time.perf_counter()
        trained = train_pipeline(
            recipe,
            self.data,
            self.bundle.about.seed,
            self.split,
            Labelled(self.progress, label),
            checkpoint_dir=self.folder,
            folds=folds,
        )
        seconds = time.perf_counter() - began
        return _Base(trained, self.hits(trained.recommender.pipeline), seconds)

    def hits(self, pipeline: Stage) -> Ints:
        """The relevant items in the slates of a pipeline [C]."""
        return hits_per_request(resized(offline(pipeline), self.k), self.sample)

    def fitted_again(self, base: _Base) -> Iterator[KnobResult]:
        """The bundle with each of its stages fitted again, and with all of them; only those that change something."""
        before = self.hits(self.bundle.pipeline)
        hits = {leaf.title: self.hits(self._with(leaf)) for leaf in leaves(base.pipeline)}
        hits = {name: one for name, one in hits.items() if (one != before).any()}
        if len(hits) > 1:
            hits[ALL] = base.hits
        assert self.bundle.recipe is not None
        for name, one in hits.items():
            variant = Variant(name, "fit", "again", {}, self.bundle.recipe)
            yield self._compared(variant, one, before, base.seconds)

    def _with(self, leaf: Stage) -> Pipeline:
        """The pipeline of the bundle with this stage in the place of its own."""
        return replace_stage(self.bundle.pipeline, leaf.title, lambda _: leaf)

    def measured(self, variant: Variant, base: _Base, spent: float, label: str) -> KnobResult:
        """A variant against the recipe as it is, if there is time for it."""
        if spent + base.seconds / 2 > 60 * self.minutes:
            return variant.result(why=f"{NO_TIME} within --minutes {self.minutes:g}")
        try:
            recipe = variant.changed
            title = f"{label} ({variant.stage}: {variant.knob} = {variant.setting}): "
            made = self.fit(recipe, title, _folds_for(recipe, variant.recipe, base.trained.folds))
        except (ConfigError, DataError) as error:
            return variant.result(why=" ".join(str(error).split()))
        return self._compared(variant, made.hits, base.hits, made.seconds)

    def _compared(self, variant: Variant, hits: Ints, before: Ints, seconds: float) -> KnobResult:
        gain = self.sample.recall(hits - before)
        a, b = (torch.from_numpy(self.sample.recalls(one)) for one in (hits, before))
        p_value = paired(a, b, self.sample.seed).p_value
        return variant.result(gain, seconds=seconds, p_value=p_value)


def _folds_for(recipe: Recipe, before: Recipe, folds: Folds | None) -> Folds | None:
    """The candidates of the recipe before the change, if the change leaves them as they are or drops nominators."""
    early, known = _early(recipe), _early(before)
    same = recipe.training == before.training and all(known.get(name) == one for name, one in early.items())
    if folds is None or not same:
        return None
    expected = before.expression
    for name in known.keys() - early.keys():
        expected = without_stage(expected, name) or ""
    if not expected or first_step(expected) != first_step(recipe.expression):
        return None
    nominators = [name for name in early if issubclass(TYPES[early[name].type], Nominator)]
    return folds if early.keys() == known.keys() else folds.restricted(nominators) if folds.done else None


def _early(recipe: Recipe) -> dict[str, StageConfig]:
    """The stages that are fitted on events alone."""
    kinds = {name: TYPES[one.type] for name, one in recipe.stages.items()}
    return {name: recipe.stages[name] for name, kind in kinds.items() if issubclass(kind, Nominator | Filter)}
