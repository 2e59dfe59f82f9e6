"""Metrics of the whole funnel: joint recall, utility lost per stage, agreement of stages, reveal ratio of nominators.

The relevance of an item is 1 if the held-out user interacted with it, else 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.evaluate.losses import BatchLosses
from shortlist.metrics.estimate import Floats
from shortlist.metrics.funnel.consistency import stage_consistency
from shortlist.metrics.significance import Interval, bootstraps
from shortlist.pipeline.trace import RETURNED, Trace

SCORING = ("nominator", "scorer", "pipeline")
PAIRS = 1_000_000  # pairs of candidates that are compared per batch and stage


@dataclass(frozen=True)
class StageUtility:
    """What one stage keeps of the relevant items of a request, and of the utility that its slots could have."""

    name: str
    recall: Interval  # share of the relevant items of a request that are among the candidates after the stage
    best_utility: (
        float  # per request: relevant items after the stage, at most as many as the slate has places
    )
    utility_lost: Interval  # per request


@dataclass(frozen=True)
class StageAgreement:
    """How far a stage keeps the order of the last stage that scored its candidates, on a sample of the requests."""

    first: str
    second: str
    requests: int
    share_kept: (
        Interval  # of the best candidates by the first, as many as the second keeps, also best by the second
    )
    tau_b: Interval
    rbo: Interval


@dataclass(frozen=True)
class RevealRatio:
    """How much of what a nominator returns is served; an item of m nominators counts 1 for each, or 1 / m (split)."""

    returned: float  # items per request
    reveal_yield: float | None  # served items over returned ones
    reveal_yield_split: float | None
    reveal_share: float | None  # served items over all served ones
    reveal_share_split: float | None


@dataclass(frozen=True)
class FunnelMetrics:
    """The funnel as one system; utilities telescope: input - sum of lost = that of the slates."""

    slots: int
    joint_recall: Interval  # Recall@k@K: share of the k relevant items in the slate of K
    input_utility: (
        float  # per request: relevant items of the catalogue, at most as many as the slate has places
    )
    stages: tuple[StageUtility, ...]
    agreement: tuple[StageAgreement, ...]
    nominators: Mapping[str, RevealRatio]


@dataclass(frozen=True, eq=False)
class BatchFunnel:
    """The numbers of one batch, from which those of all batches are computed."""

    alive: Tensor  # [B, S + 1] relevant items in the catalogue and after each stage
    names: tuple[str, ...]
    nominators: tuple[str, ...]
    revealed: Tensor  # [P, 3] items returned, served, and served with 1 / m each
    served: int
    agreement: Mapping[tuple[str, str], Tensor]  # [rows, 3] share kept, tau-b, rank-biased overlap


def batch_funnel(trace: Trace, losses: BatchLosses, relevant: Tensor) -> BatchFunnel:
    """The funnel of a traced batch, whose relevant items [B, R] were followed in `losses`."""
    row = (relevant >= 0).nonzero()[:, 0]
    after = torch.from_numpy(losses.trace.alive)  # [n, S]
    steps = torch.cat([torch.ones(len(row), 1), after], dim=1)
    alive = torch.zeros(len(relevant), steps.shape[1]).index_add_(0, row, steps)
    parts = tuple(part.name for part in trace.steps[0].parts)
    returned = torch.stack([~trace.nominated.columns[f"{name}.rank"].isnan() for name in parts]).double()
    served = trace.fate == RETURNED
    credit = returned * served
    split = credit / returned.sum(0).clamp(min=1)
    revealed = torch.stack([one.sum((1, 2)) for one in (returned, credit, split)], dim=1)
    return BatchFunnel(alive, trace.names, parts, revealed, int(served.sum()), stage_agreements(trace))


def funnel_metrics(batches: Sequence[BatchFunnel], slots: int, seed: int = 0) -> FunnelMetrics:
    """The metrics of all batches of one pipeline, one batch at least."""
    first, alive = batches[0], torch.cat([batch.alive for batch in batches]).double()  # [C, S + 1]
    recall = alive[:, 1:] / alive[:, :1].masked_fill(alive[:, :1] == 0, torch.nan)
    best = alive.clamp(max=slots)
    lost = best[:, :-1] - best[:, 1:]
    intervals = bootstraps([*recall.T, *lost.T], seed)
    count = len(first.names)
    stages = tuple(
        StageUtility(name, intervals[at], float(best[:, at + 1].mean()), intervals[count + at])
        for at, name in enumerate(first.names)
    )
    return FunnelMetrics(
        slots,
        intervals[count - 1],
        float(best[:, 0].mean()),
        stages,
        tuple(_agreement(pair, batches, seed) for pair in first.agreement),
        _batch_reveal_ratios(batches, len(alive)),
    )


def stage_agreements(trace: Trace) -> dict[tuple[str, str], Tensor]:
    """Agreement of each stage that scores or selects with the last one before it that scored [rows, 3]."""
    found: dict[tuple[str, str], Tensor] = {}
    before = 0
    for number, step in enumerate(trace.steps[1:], start=1):
        if step.kind in (*SCORING, "selector"):
            pair = (trace.steps[before].name, step.name)
            second = _selected(trace, number) if step.kind == "selector" else trace.scores(number)
            found[pair] = _compared(trace.scores(before), second, int(step.kept.max()))
            before = before if step.kind == "selector" else number
    return found


def _compared(first: Tensor, second: Tensor, cap: int) -> Tensor:
    """Share kept, tau-b and overlap of two orders [B, K0] of the candidates that both have, for some rows [rows, 3]."""
    there = ~first.isnan() & ~second.isnan()
    width = max(int(there.sum(1).max()), 1) if len(there) else 1
    rows = torch.linspace(0, len(first) - 1, min(max(PAIRS // width**2, 1), len(first))).long()
    columns = there[rows].int().argsort(dim=1, descending=True, stable=True)[:, :width]
    one, two = (values[rows].gather(1, columns) for values in (first, second))
    found = stage_consistency(one.nan_to_num(0), two.nan_to_num(0), cap, there[rows].gather(1, columns))
    return torch.stack([found.share_kept, found.tau_b, found.rbo], dim=1)


def _selected(trace: Trace, number: int) -> Tensor:
    """Scores that stand for the choice of a selector [B, K0]: its order, lowest where not chosen, NaN where absent."""
    step, (count, width) = trace.steps[number], trace.nominated.shape
    order = torch.full((count, width + 1), torch.nan)
    # Empty places write into an extra column, which is dropped.
    before, after = (one.slot.masked_fill(~one.valid, width) for one in (step.before, step.after))
    order = order.scatter(1, before, torch.full(before.shape, -float(width)))
    return order.scatter(1, after, -torch.arange(after.shape[1]).to(order).expand(after.shape))[:, :-1]


def _agreement(pair: tuple[str, str], batches: Sequence[BatchFunnel], seed: int) -> StageAgreement:
    values = torch.cat([batch.agreement[pair] for batch in batches])
    return StageAgreement(*pair, len(values), *bootstraps([*values.T], seed))


def _batch_reveal_ratios(batches: Sequence[BatchFunnel], requests: int) -> dict[str, RevealRatio]:
    sums = np.sum([batch.revealed.numpy() for batch in batches], axis=0)
    return reveal_ratios(batches[0].nominators, sums, sum(batch.served for batch in batches), requests)


def reveal_ratios(
    nominators: Sequence[str], sums: Floats, served: float, requests: int
) -> dict[str, RevealRatio]:
    """Ratios from sums over requests: `sums` [P, 3] are items returned, served, and served with 1 / m each."""
    return {
        name: RevealRatio(
            returned / max(requests, 1),
            _ratio(full, returned),
            _ratio(split, returned),
            _ratio(full, served),
            _ratio(split, served),
        )
        for name, (returned, full, split) in zip(nominators, sums.tolist(), strict=True)
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
