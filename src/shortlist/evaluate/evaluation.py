"""Evaluation of one bundle: metrics with intervals beside those of baselines, and the losses of every stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Dataset, HeldOut, Interactions, Query, Split, open_dataset
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError, ConservationError, DataError
from shortlist.evaluate.baselines import POPULARITY
from shortlist.evaluate.baselines import baselines as counted
from shortlist.evaluate.example import WorkedExample, typical_request, worked_example
from shortlist.evaluate.fitted_baselines import check_choice, collect_baselines
from shortlist.evaluate.headline import (
    SAMPLES,
    Against,
    Headline,
    below_warning,
    best_baseline,
    headline,
    headline_of,
)
from shortlist.evaluate.losses import BatchLosses, Losses, StageLosses, batch_losses, total_losses
from shortlist.evaluate.measures import KS, Measures, choose_measures
from shortlist.evaluate.protocol import Protocol, protocol_of
from shortlist.evaluate.scores import Scores, SystemMetrics, score_slates, summaries
from shortlist.evaluate.segments import segments
from shortlist.evaluate.table import metrics_to_arrow
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.ranking import Relevant
from shortlist.metrics.significance import Interval, PairedTest, paired_tests
from shortlist.pipeline import About, Recommender, open_recommender, run
from shortlist.pipeline.batch.held_out import in_batches, in_order, slates_of
from shortlist.pipeline.batch.job import workers
from shortlist.pipeline.offline import offline, time_limited
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent

PIPELINE = "pipeline"
PARTS = ("test", "valid")


@dataclass(frozen=True)
class Segment:
    """Metrics of the users of one segment."""

    users: int
    pipeline: Mapping[str, Interval]
    popularity: Mapping[str, Interval]


@dataclass(frozen=True)
class Evaluation:
    """The result of `evaluate`: everything its page and its tables show."""

    users: int
    headline: Headline
    expression: str  # of the pipeline as it was evaluated
    metrics: Mapping[str, SystemMetrics]  # "pipeline" first, then the baselines
    differences: Mapping[str, Mapping[str, PairedTest]]  # pipeline - baseline, by baseline and metric
    segments: Mapping[str, Segment]
    losses: StageLosses
    example: WorkedExample
    protocol: Protocol
    about: About
    warnings: tuple[str, ...]

    @property
    def best_baseline(self) -> str:
        """The best baseline by the metric that decides."""
        return self.headline.best.baseline

    @property
    def tested(self) -> tuple[str, ...]:
        """The metrics with paired tests, the one that decides first."""
        return tuple(self.differences[self.best_baseline])

    def mean(self, system: str, metric: str | None = None) -> float:
        """The mean of one metric, by default the one that decides; NaN without users."""
        return self.metrics[system].metrics[metric or self.headline.metric].mean

    def to_arrow(self) -> pa.Table:
        """One row per system and metric, with users, mean and interval."""
        return metrics_to_arrow(self.metrics)

    def __str__(self) -> str:
        means = (f"{name} {self.mean(name):.4f}" for name in self.metrics)
        lines = [f"{self.about.name}: {self.headline}", f"{self.headline.metric}: {', '.join(means)}"]
        return "\n".join([*lines, str(self.losses)])


@dataclass(frozen=True, eq=False)
class PipelineEvaluation:
    """The result of `evaluate_pipeline`, with the values of every user."""

    scores: Scores
    baselines: Mapping[str, Scores]  # popularity first
    losses: StageLosses
    user_losses: Losses
    segments: Mapping[str, Tensor]  # masks over the held-out requests, each [C] bool
    slates: Tensor  # [C, k] item rows
    measures: Measures

    @property
    def popularity(self) -> Scores:
        """The scores of the popularity baseline."""
        return self.baselines[POPULARITY]

    def metrics(self, seed: int = 0) -> dict[str, SystemMetrics]:
        """Metrics with intervals of the pipeline and the baselines."""
        return summaries({PIPELINE: self.scores, **self.baselines}, seed)

    def differences(self, seed: int = 0) -> dict[str, dict[str, PairedTest]]:
        """Paired tests of the pipeline against every baseline."""
        tested = self.measures.tested
        columns = [(self.scores[one], own[one]) for own in self.baselines.values() for one in tested]
        tests = iter(paired_tests(columns, seed, SAMPLES))
        return {name: {metric: next(tests) for metric in tested} for name in self.baselines}

    def by_segment(self, seed: int = 0) -> dict[str, Segment]:
        """Metrics of every segment that has users."""
        masks = {name: mask for name, mask in self.segments.items() if bool(mask.any())}
        with workers() as pool:
            found = pool.map(lambda mask: self._intervals(mask, seed), masks.values())
            return {
                name: Segment(int(mask.sum()), *own)
                for (name, mask), own in zip(masks.items(), found, strict=True)
            }

    def _intervals(self, mask: Tensor, seed: int) -> tuple[Mapping[str, Interval], Mapping[str, Interval]]:
        """Metrics of the pipeline and of popularity for some users."""
        systems = {
            name: own.segment(mask) for name, own in ((PIPELINE, self.scores), (POPULARITY, self.popularity))
        }
        found = summaries(systems, seed)
        return found[PIPELINE].metrics, found[POPULARITY].metrics


def evaluate(
    bundle: Recommender | Path | str,
    data: Dataset | Path | str,
    *,
    on: str = "test",
    metrics: str | Sequence[str] | None = None,
    at: str | int | Sequence[int] | None = None,
    baselines: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Evaluate a bundle on the users its split held out.

    `bundle` and `data` are objects or their folders; `on` is "test" or "valid". `metrics` ("recall,ndcg") and the
    cut-offs `at` ("5,10,50") replace all metrics at 10 and 20; the first metric at the largest cut-off decides.
    `baselines`: "counts" are the counted ones; "all" also fits EASE and item neighbours that the bundle does not store,
    "auto" only where that is cheap.
    """
    measures = choose_measures(metrics, at)  # refuse a wrong choice before anything is loaded
    check_choice(baselines)
    opened = open_recommender(bundle).as_measured()
    return _evaluation(opened, open_dataset(data), on, measures, baselines, seed, progress)


def _evaluation(
    bundle: Recommender,
    data: Dataset,
    on: str,
    measures: Measures,
    choice: str,
    seed: int,
    progress: Progress,
) -> Evaluation:
    split = split_of(bundle, data)
    held_out = held_out_part(split, on)
    check_not_empty(held_out)
    known = collect_baselines(
        [bundle], held_out, split.train, on, measures.slate, data.clock, choice, progress
    )
    found = evaluate_pipeline(
        offline(bundle.pipeline),
        held_out,
        split.train,
        progress=progress,
        measures=measures,
        baselines=known.slates,
    )
    row = typical_request(found.scores[measures.metric])
    values, tests = found.metrics(seed), found.differences(seed)
    return Evaluation(
        len(held_out),
        _headline(found, values, tests, on),
        repr(resized(bundle.pipeline, measures.slate)),
        values,
        tests,
        found.by_segment(seed),
        found.losses,
        worked_example(bundle, data, held_out, row),
        protocol_of(split.settings, on, len(held_out), {bundle.about.name: bundle.pipeline}, known.rule),
        bundle.about,
        (
            *training_warnings(bundle.about),
            *below_warning(
                PIPELINE, measures.metric, {name: own[measures.metric] for name, own in tests.items()}
            ),
            *limit_warnings(bundle.pipeline),
        ),
    )


def _headline(
    found: PipelineEvaluation,
    values: Mapping[str, SystemMetrics],
    tests: Mapping[str, Mapping[str, PairedTest]],
    on: str,
) -> Headline:
    """The headline from the metrics and tests of an evaluation."""
    measures = found.measures
    metric, best = measures.metric, best_baseline(found.baselines, measures.metric)
    known = {
        name: Against.of(name, values[name].metrics[metric], tests[name][metric])
        for name in (best, POPULARITY)
    }
    value, users = values[PIPELINE].metrics[metric], len(found.scores)
    return headline_of(metric, value, on, users, measures.slate, known[best], known[POPULARITY])


def evaluate_pipeline(
    pipeline: Stage,
    held_out: HeldOut,
    train: Interactions,
    ks: Sequence[int] = KS,
    progress: Progress = silent,
    check: bool = True,
    clock: str = "ms",
    measures: Measures | None = None,
    baselines: Mapping[str, Tensor] | None = None,
) -> PipelineEvaluation:
    """Evaluate a bare pipeline on held-out requests; baselines, novelty and segments are counted over `train`.

    Slates have as many items as the largest cut. The `clock` of the log is "ms" or "order". `check` verifies the
    conservation of candidates in every batch. `measures` replace all metrics at `ks`; slates of other `baselines`,
    popularity first, replace the counted ones.
    """
    check_not_empty(held_out)
    measures = measures or choose_measures(at=ks)
    known = counted(held_out, train, measures.slate, clock) if baselines is None else baselines
    slates, batches = _run_batches(resized(as_pipeline(pipeline), measures.slate), held_out, progress, check)
    score, (user_losses, losses) = slate_scorer(held_out, train, measures), total_losses(batches)
    with workers() as pool:  # systems side by side, as batches are
        scores, *others = pool.map(score, [slates, *known.values()])
    return PipelineEvaluation(
        scores,
        dict(zip(known, others, strict=True)),
        losses,
        user_losses,
        segments(held_out, train),
        slates,
        measures,
    )


@torch.no_grad()
def measure_headline(
    bundle: Recommender,
    held_out: HeldOut,
    train: Interactions,
    on: str,
    measures: Measures,
    clock: str = "ms",
    seed: int = 0,
    progress: Progress = silent,
) -> Headline:
    """The headline of a bundle without the rest of an evaluation: the same numbers as in `evaluate`."""
    score = slate_scorer(held_out, train, measures)
    scores = score(slates_of(offline(bundle.pipeline), held_out, measures.slate, progress))
    slates = collect_baselines([bundle], held_out, train, on, measures.slate, clock, progress=progress).slates
    known = {name: score(own) for name, own in slates.items()}
    return headline(scores, known, measures.metric, on, measures.slate, seed)


def split_of(bundle: Recommender, data: Dataset) -> Split:
    """The split a bundle was trained with; the data set must be the one it was trained on."""
    about = bundle.about
    if about.fingerprint != data.fingerprint:
        raise ConfigError(
            f"{about.name}: was trained on other data ({about.fingerprint or 'unknown'}) than {data.name} "
            f"({data.fingerprint}); its training events could be among the held-out ones; give --data the data set it "
            "was trained on, after `shortlist data append` a copy from before, or train it on these events: "
            "shortlist refresh BUNDLE --data DATA --retrain"
        )
    return data.split(**about.split)


def held_out_part(split: Split, on: str = "test") -> HeldOut:
    """The held-out requests of one part of a split."""
    if on not in PARTS:
        raise ConfigError(f"--on: expected test or valid, got {on!r}")
    return split.test if on == "test" else split.valid


def check_not_empty(held_out: HeldOut) -> None:
    """Refuse a split without held-out requests."""
    if not len(held_out):
        raise DataError(
            "evaluate: expected held-out users, got none; train with another --protocol, such as leave-last-out"
        )


def limit_warnings(pipeline: Pipeline) -> tuple[str, ...]:
    """That time limits are off: a batch would exceed a limit meant for one request, and get another answer."""
    limited = ", ".join(time_limited(pipeline))
    return (f"time limits are off, because requests run in batches: {limited}",) if limited else ()


def training_warnings(about: About) -> tuple[str, ...]:
    """Stages whose training did not converge, and what their trainers warned of."""
    unfinished = (
        f"stage {stage!r} did not converge: its validation metric was still improving when training ended "
        f"(best epoch {about.training[stage].best_epoch} of {about.training[stage].max_epochs}); train it for longer"
        for stage in about.not_converged
    )
    return (*unfinished, *about.warnings)


def slate_scorer(held_out: HeldOut, train: Interactions, measures: Measures) -> Callable[[Tensor], Scores]:
    """A function from slates [C, k] to scores against the relevant items of the held-out requests."""
    relevant, popularity = Relevant.of(held_out.relevant()), torch.from_numpy(users_per_item(train))
    n_users = int((train.lengths > 0).sum())
    return lambda slates: score_slates(slates, relevant, measures.ks, popularity, n_users, measures.names)


def _run_batches(
    pipeline: Pipeline, held_out: HeldOut, progress: Progress, check: bool
) -> tuple[Tensor, list[BatchLosses]]:
    """Slates and losses of all requests; a trace is in memory only while its batch is counted."""

    def answer(part: HeldOut, query: Query) -> tuple[Tensor, BatchLosses]:
        slate, relevant = run(pipeline, query), part.relevant()
        losses = batch_losses(slate.trace.check() if check else slate.trace, relevant, part.users)
        _check_returned(slate.items, relevant, losses)
        return slate.items, losses

    found = in_batches(answer, held_out, progress)
    return in_order([(rows, items) for rows, (items, _) in found]), [losses for _, (_, losses) in found]


def _check_returned(slates: Tensor, relevant: Tensor, batch: BatchLosses) -> None:
    """The relevant items that survive the last stage must be those in the slates."""
    in_slates, survived = int(is_in(relevant, slates).sum()), int(batch.trace.alive[:, -1].sum())
    if in_slates != survived:
        raise ConservationError(
            f"evaluate: {survived} relevant items survive the last stage but {in_slates} are in the slates"
        )


def users_per_item(train: Interactions) -> NDArray[np.int64]:
    """How many users interacted with each item [N]."""
    return np.bincount(train.matrix().indices, minlength=train.n_items).astype(np.int64)
