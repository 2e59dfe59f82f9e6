"""Evaluation of a bare pipeline on held-out requests, with the values of every user."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import HeldOut, Interactions, Query
from shortlist.data.membership import is_in
from shortlist.errors import ConservationError
from shortlist.evaluate.funnel import BatchFunnel, FunnelMetrics, batch_funnel, funnel_metrics
from shortlist.evaluate.headline import SAMPLES
from shortlist.evaluate.losses import BatchLosses, Losses, StageLosses, batch_losses, total_losses
from shortlist.evaluate.protocol.baselines import POPULARITY
from shortlist.evaluate.protocol.baselines import baselines as counted
from shortlist.evaluate.protocol.held_out import check_not_empty
from shortlist.evaluate.protocol.measures import KS, Measures, choose_measures
from shortlist.evaluate.scores import Scores, SystemMetrics, score_slates, summaries
from shortlist.evaluate.segments import segments
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.ranking import Relevant
from shortlist.metrics.significance import Interval, PairedTest, paired_tests
from shortlist.pipeline import run
from shortlist.pipeline.batch.held_out import in_batches, in_order
from shortlist.pipeline.batch.job import workers
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent

PIPELINE = "pipeline"


@dataclass(frozen=True)
class Segment:
    """Metrics of the users of one segment."""

    users: int
    pipeline: Mapping[str, Interval]
    popularity: Mapping[str, Interval]


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
    batches: tuple[BatchFunnel, ...] = ()

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

    def funnel(self, seed: int = 0) -> FunnelMetrics:
        """Joint recall, utility lost per stage, agreement of stages and reveal ratios."""
        return funnel_metrics(self.batches, self.measures.slate, seed)

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
    sized = resized(as_pipeline(pipeline), measures.slate)
    slates, batches, funnels = _run_batches(sized, held_out, progress, check)
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
        tuple(funnels),
    )


def slate_scorer(held_out: HeldOut, train: Interactions, measures: Measures) -> Callable[[Tensor], Scores]:
    """A function from slates [C, k] to scores against the relevant items of the held-out requests."""
    relevant, popularity = Relevant.of(held_out.relevant()), torch.from_numpy(users_per_item(train))
    n_users = int((train.lengths > 0).sum())
    return lambda slates: score_slates(slates, relevant, measures.ks, popularity, n_users, measures.names)


def _run_batches(
    pipeline: Pipeline, held_out: HeldOut, progress: Progress, check: bool
) -> tuple[Tensor, list[BatchLosses], list[BatchFunnel]]:
    """Slates, losses and funnels of all requests; a trace is in memory only while its batch is counted."""

    def answer(part: HeldOut, query: Query) -> tuple[Tensor, BatchLosses, BatchFunnel]:
        slate, relevant = run(pipeline, query), part.relevant()
        losses = batch_losses(slate.trace.check() if check else slate.trace, relevant, part.users)
        _check_returned(slate.items, relevant, losses)
        return slate.items, losses, batch_funnel(slate.trace, losses, relevant)

    found = in_batches(answer, held_out, progress)
    slates = in_order([(rows, items) for rows, (items, _, _) in found])
    return slates, [losses for _, (_, losses, _) in found], [funnel for _, (_, _, funnel) in found]


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
