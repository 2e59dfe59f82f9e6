"""Evaluation of one bundle: metrics with intervals beside those of baselines, and the losses of every stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Dataset, HeldOut, Interactions, Split, open_dataset
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError, ConservationError, DataError
from shortlist.evaluate.baselines import POPULARITY, baselines
from shortlist.evaluate.example import WorkedExample, typical_request, worked_example
from shortlist.evaluate.losses import BatchLosses, Losses, StageLosses, batch_losses, total_losses
from shortlist.evaluate.protocol import Protocol, protocol_of
from shortlist.evaluate.scores import Scores, SystemMetrics, score_slates
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.significance import Interval, PairedTest
from shortlist.pipeline import About, Recommender, open_recommender, run
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent, tracked

KS = (10, 20)
TESTED = ("recall@20", "ndcg@20")  # metrics with paired tests against every baseline
PIPELINE = "pipeline"
PARTS = ("test", "valid")
BATCH = 128
ACTIVE = 0.5  # share of users, those with the longer histories, in the segment "active"


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
        """The baseline with the highest recall@20."""
        return max(self.differences, key=lambda name: self.mean(name) if self.mean(name) > 0 else 0.0)

    def mean(self, system: str, metric: str = "recall@20") -> float:
        """The mean of one metric of the pipeline or a baseline; NaN without users."""
        return self.metrics[system].metrics[metric].mean

    def __str__(self) -> str:
        means = (f"{name} {self.mean(name):.4f}" for name in self.metrics)
        return (
            f"{self.about.name}: {self.users:,} held-out users\nrecall@20: {', '.join(means)}\n{self.losses}"
        )


@dataclass(frozen=True, eq=False)
class PipelineEvaluation:
    """The result of `evaluate_pipeline`, with the values of every user."""

    scores: Scores
    baselines: Mapping[str, Scores]  # popularity first
    losses: StageLosses
    user_losses: Losses
    segments: Mapping[str, Tensor]  # masks over the held-out requests, each [C] bool
    slates: Tensor  # [C, k] item rows

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
        return {
            name: {metric: self.scores.against(scores, metric, seed) for metric in TESTED}
            for name, scores in self.baselines.items()
        }

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
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Evaluate a bundle on the users its split held out.

    `bundle` and `data` are objects or their folders; `on` is "test" or "valid".
    """
    return _evaluation(open_recommender(bundle), open_dataset(data), on, seed, progress)


def _evaluation(bundle: Recommender, data: Dataset, on: str, seed: int, progress: Progress) -> Evaluation:
    split = split_of(bundle, data)
    held_out = held_out_part(split, on)
    found = evaluate_pipeline(bundle.pipeline, held_out, split.train, progress=progress, clock=data.clock)
    row = typical_request(found.scores["recall@20"])
    return Evaluation(
        len(held_out),
        repr(resized(bundle.pipeline, max(KS))),
        found.metrics(seed),
        found.differences(seed),
        found.by_segment(seed),
        found.losses,
        worked_example(bundle, data, held_out, row),
        protocol_of(split.settings, on, len(held_out), {bundle.about.name: bundle.pipeline}),
        bundle.about,
        training_warnings(bundle.about),
    )


def evaluate_pipeline(
    pipeline: Stage,
    held_out: HeldOut,
    train: Interactions,
    ks: Sequence[int] = KS,
    progress: Progress = silent,
    check: bool = True,
    clock: str = "ms",
) -> PipelineEvaluation:
    """Evaluate a bare pipeline on held-out requests; baselines, novelty and segments are counted over `train`.

    Slates have as many items as the largest cut. The `clock` of the log is "ms" or "order". `check` verifies the
    conservation of candidates in every batch.
    """
    check_not_empty(held_out)
    slates, batches = _run_batches(resized(as_pipeline(pipeline), max(ks)), held_out, progress, check)
    score, (user_losses, losses) = slate_scorer(held_out, train, ks), total_losses(batches)
    return PipelineEvaluation(
        score(slates),
        {name: score(own) for name, own in baselines(held_out, train, max(ks), clock).items()},
        losses,
        user_losses,
        segments(held_out, train),
        slates,
    )


def split_of(bundle: Recommender, data: Dataset) -> Split:
    """The split a bundle was trained with; the data set must be the one it was trained on."""
    about = bundle.about
    if about.fingerprint != data.fingerprint:
        raise ConfigError(
            f"{about.name}: was trained on other data ({about.fingerprint or 'unknown'}) than {data.name} "
            f"({data.fingerprint}); its training events could be among the held-out ones"
        )
    return data.split(**about.split)


def held_out_part(split: Split, on: str = "test") -> HeldOut:
    """The held-out requests of one part of a split."""
    if on not in PARTS:
        raise ConfigError(f"on must be test or valid, got {on!r}")
    return split.test if on == "test" else split.valid


def check_not_empty(held_out: HeldOut) -> None:
    """Refuse a split without held-out requests."""
    if not len(held_out):
        raise DataError("evaluate: expected held-out users, got none; choose another split")


def training_warnings(about: About) -> tuple[str, ...]:
    """Stages whose training did not converge, and what their trainers warned of."""
    unfinished = (
        f"stage {stage!r} did not converge: its validation metric was still improving when training ended "
        f"(best epoch {about.training[stage].best_epoch} of {about.training[stage].max_epochs}); train it for longer"
        for stage in about.not_converged
    )
    return (*unfinished, *about.warnings)


def slate_scorer(
    held_out: HeldOut, train: Interactions, ks: Sequence[int] = KS
) -> Callable[[Tensor], Scores]:
    """A function from slates [C, k] to scores against the relevant items of the held-out requests."""
    relevant, popularity = held_out.relevant(), torch.from_numpy(users_per_item(train))
    n_users = int((train.lengths > 0).sum())
    return lambda slates: score_slates(slates, relevant, ks, popularity, n_users)


def segments(held_out: HeldOut, train: Interactions) -> dict[str, Tensor]:
    """Masks over requests: by length of history, by new users, and by popularity of the relevant items.

    Popular items are the smallest set of the most frequent ones that has half of the training events.
    """
    lengths = torch.from_numpy(held_out.history_lengths().copy())
    active = lengths >= torch.quantile(lengths.double(), ACTIVE)
    relevant = held_out.relevant()
    popular = _popular(train)[relevant.clamp(min=0)] & (relevant >= 0)
    share = popular.sum(1) / (relevant >= 0).sum(1).clamp(min=1)
    return {
        "active": active,
        "few events": ~active,
        "new users": torch.from_numpy(np.isin(held_out.users, train.users, invert=True)),
        "mostly popular items": share >= 0.5,
        "mostly tail items": share < 0.5,
    }


def _popular(train: Interactions) -> Tensor:
    """Whether each item is among the most frequent that have half of the events [N]."""
    counts = torch.from_numpy(train.popularity.copy())
    ordered = counts.sort(descending=True).values
    total = ordered.cumsum(0)
    return counts >= ordered[int((total < total[-1] * 0.5).sum())]


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
