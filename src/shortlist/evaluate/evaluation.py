"""Evaluation of one bundle: metrics with intervals beside those of baselines, and the losses of every stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Dataset, HeldOut, Interactions, Split, open_dataset
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError, ConservationError, DataError
from shortlist.evaluate.baselines import POPULARITY, baselines
from shortlist.evaluate.example import WorkedExample, typical_request, worked_example
from shortlist.evaluate.headline import SAMPLES, Headline, headline
from shortlist.evaluate.losses import BatchLosses, Losses, StageLosses, batch_losses, total_losses
from shortlist.evaluate.measures import KS, Measures, choose_measures
from shortlist.evaluate.protocol import Protocol, protocol_of
from shortlist.evaluate.scores import Scores, SystemMetrics, score_slates
from shortlist.evaluate.segments import segments
from shortlist.evaluate.table import metrics_to_arrow
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.significance import Interval, PairedTest
from shortlist.pipeline import About, Recommender, open_recommender, run
from shortlist.pipeline.offline import offline, time_limited
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent, tracked

PIPELINE = "pipeline"
PARTS = ("test", "valid")
BATCH = 128


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
        systems = {PIPELINE: self.scores, **self.baselines}
        return {name: scores.summary(seed) for name, scores in systems.items()}

    def differences(self, seed: int = 0) -> dict[str, dict[str, PairedTest]]:
        """Paired tests of the pipeline against every baseline."""
        tested = self.measures.tested
        return {
            name: {metric: self.scores.against(scores, metric, seed, SAMPLES) for metric in tested}
            for name, scores in self.baselines.items()
        }

    def headline(self, on: str, seed: int = 0) -> Headline:
        """The metric that decides; `on` is the part of the split the requests come from."""
        measures = self.measures
        return headline(self.scores, self.baselines, measures.metric, on, measures.slate, seed)

    def by_segment(self, seed: int = 0) -> dict[str, Segment]:
        """Metrics of every segment that has users."""
        return {
            name: Segment(
                int(mask.sum()),
                self.scores.segment(mask).intervals(seed),
                self.popularity.segment(mask).intervals(seed),
            )
            for name, mask in self.segments.items()
            if bool(mask.any())
        }


def evaluate(
    bundle: Recommender | Path | str,
    data: Dataset | Path | str,
    *,
    on: str = "test",
    metrics: str | Sequence[str] | None = None,
    at: str | int | Sequence[int] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Evaluate a bundle on the users its split held out.

    `bundle` and `data` are objects or their folders; `on` is "test" or "valid". `metrics` ("recall,ndcg") and the
    cut-offs `at` ("5,10,50") replace all metrics at 10 and 20; the first metric at the largest cut-off decides.
    """
    measures = choose_measures(metrics, at)  # refuse a wrong choice before anything is loaded
    opened = open_recommender(bundle).as_measured()
    return _evaluation(opened, open_dataset(data), on, measures, seed, progress)


def _evaluation(
    bundle: Recommender, data: Dataset, on: str, measures: Measures, seed: int, progress: Progress
) -> Evaluation:
    split = split_of(bundle, data)
    held_out = held_out_part(split, on)
    found = evaluate_pipeline(
        offline(bundle.pipeline),
        held_out,
        split.train,
        progress=progress,
        clock=data.clock,
        measures=measures,
    )
    row = typical_request(found.scores[measures.metric])
    return Evaluation(
        len(held_out),
        found.headline(on, seed),
        repr(resized(bundle.pipeline, measures.slate)),
        found.metrics(seed),
        found.differences(seed),
        found.by_segment(seed),
        found.losses,
        worked_example(bundle, data, held_out, row),
        protocol_of(split.settings, on, len(held_out), {bundle.about.name: bundle.pipeline}),
        bundle.about,
        (*training_warnings(bundle.about), *limit_warnings(bundle.pipeline)),
    )


def evaluate_pipeline(
    pipeline: Stage,
    held_out: HeldOut,
    train: Interactions,
    ks: Sequence[int] = KS,
    progress: Progress = silent,
    check: bool = True,
    clock: str = "ms",
    measures: Measures | None = None,
) -> PipelineEvaluation:
    """Evaluate a bare pipeline on held-out requests; baselines, novelty and segments are counted over `train`.

    Slates have as many items as the largest cut. The `clock` of the log is "ms" or "order". `check` verifies the
    conservation of candidates in every batch. `measures` replace all metrics at `ks`.
    """
    check_not_empty(held_out)
    measures = measures or choose_measures(at=ks)
    slates, batches = _run_batches(resized(as_pipeline(pipeline), measures.slate), held_out, progress, check)
    score, (user_losses, losses) = slate_scorer(held_out, train, measures), total_losses(batches)
    return PipelineEvaluation(
        score(slates),
        {name: score(own) for name, own in baselines(held_out, train, measures.slate, clock).items()},
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
    known = {name: score(own) for name, own in baselines(held_out, train, measures.slate, clock).items()}
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
    relevant, popularity = held_out.relevant(), torch.from_numpy(users_per_item(train))
    n_users = int((train.lengths > 0).sum())
    return lambda slates: score_slates(slates, relevant, measures.ks, popularity, n_users, measures.names)


@torch.no_grad()
def slates_of(pipeline: Stage, held_out: HeldOut, k: int, progress: Progress = silent) -> Tensor:
    """The slates of a pipeline for all held-out requests, k items each [C, k], -1 = an empty place."""
    sized = resized(as_pipeline(pipeline), k)
    parts = [held_out.take(slice(start, start + BATCH)) for start in range(0, len(held_out), BATCH)]
    return _stacked(
        [
            run(sized, part.query(width=longest_history(part))).items
            for part in tracked(parts, "evaluate", progress)
        ]
    )


@torch.no_grad()
def _run_batches(
    pipeline: Pipeline, held_out: HeldOut, progress: Progress, check: bool
) -> tuple[Tensor, list[BatchLosses]]:
    """Slates and losses of all requests; only one batch of traces is in memory at a time."""
    slates, batches = [], []
    for start in tracked(range(0, len(held_out), BATCH), "evaluate", progress):
        part = held_out.take(slice(start, start + BATCH))
        slate, relevant = run(pipeline, part.query(width=longest_history(part))), part.relevant()
        trace = slate.trace.check() if check else slate.trace
        batches.append(batch_losses(trace, relevant, part.users))
        slates.append(slate.items)
        _check_returned(slate.items, relevant, batches[-1])
    return _stacked(slates), batches


def _check_returned(slates: Tensor, relevant: Tensor, batch: BatchLosses) -> None:
    """The relevant items that survive the last stage must be those in the slates."""
    in_slates, survived = int(is_in(relevant, slates).sum()), int(batch.trace.alive[:, -1].sum())
    if in_slates != survived:
        raise ConservationError(
            f"evaluate: {survived} relevant items survive the last stage but {in_slates} are in the slates"
        )


def _stacked(parts: list[Tensor]) -> Tensor:
    width = max(part.shape[1] for part in parts)
    return torch.cat([torch.nn.functional.pad(part, (0, width - part.shape[1]), value=-1) for part in parts])


def users_per_item(train: Interactions) -> NDArray[np.int64]:
    """How many users interacted with each item [N]."""
    return np.bincount(train.matrix().indices, minlength=train.n_items).astype(np.int64)


def longest_history(held_out: HeldOut) -> int:
    """The width of histories that truncates none of them."""
    return int(held_out.history_lengths().max(initial=1))
