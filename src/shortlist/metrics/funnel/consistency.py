"""How far two stages agree on the same input: share of the top kept, Kendall's tau-b and rank-biased overlap.

On a sampled log every item has `weight` 1 / incl_prob, and pairs have the inverse of their joint inclusion probability.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.metrics.funnel.cascade import places

PERSISTENCE = 0.9
PAIRS = 20_000_000  # pairs of items that are compared at a time


@dataclass(frozen=True, eq=False)
class StageConsistency:
    """Agreement of two stages for every request [B]."""

    share_kept: Tensor  # of the top `cap` of the first stage, in the top `cap` of the second
    tau_b: Tensor
    rbo: Tensor


@dataclass(frozen=True, eq=False)
class Sample:
    """How rows of a log were sampled: `weight` [B, n] and the sampling stratum S >= 0 [B, n] of every item."""

    weight: Tensor
    stratum: Tensor


def stage_consistency(
    first: Tensor,
    second: Tensor,
    cap: int | Tensor,
    mask: Tensor | None = None,
    sample: Sample | None = None,
    ranks: tuple[Tensor, Tensor] | None = None,
) -> StageConsistency:
    """Compare the scores [B, n] of two stages for the same input; `cap` is the capacity of the next stage, or that of
    every request [B, 1].

    On a sampled log `ranks` are the logged ranks [B, n] from 1 in the full input. Without them they are estimated from
    the weights.
    """
    mask = torch.ones_like(first, dtype=torch.bool) if mask is None else mask.bool()
    weight = mask.double() if sample is None else sample.weight.double() * mask
    one, two = ranks or (sample_ranks(first, weight, mask), sample_ranks(second, weight, mask))
    return StageConsistency(
        share_kept(one <= cap, two <= cap, weight),
        tau_b(first, second, mask, sample),
        rank_biased_overlap(one, two, weight),
    )


def share_kept(first: Tensor, second: Tensor, weight: Tensor) -> Tensor:
    """Weight of the items in both tops [B, n] over that of the first top [B]; NaN where the first is empty."""
    return (weight * (first & second)).sum(1) / (weight * first).sum(1)


def sample_ranks(scores: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """Ranks from 1 in the full input, estimated by the weight of the items above [B, n]; places where all weigh 1."""
    order = places(scores, mask).argsort(dim=1)
    own = (weight * mask).gather(1, order)
    return torch.empty_like(own).scatter_(1, order, own.cumsum(1) - own + 1)


def tau_b(first: Tensor, second: Tensor, mask: Tensor, sample: Sample | None = None) -> Tensor:
    """Kendall's tau-b [B]: pairs in the same order minus pairs in opposite order, corrected for ties."""
    sample = sample or Sample(mask.double(), torch.zeros_like(mask, dtype=torch.int64))
    weights = _by_stratum(Sample(sample.weight.double() * mask, sample.stratum))  # [B, n, strata]
    joint = _joint(weights)
    width = max(1, PAIRS // max(first.shape[1] ** 2, 1))
    parts = [slice(at, at + width) for at in range(0, len(first), width)]
    same = [_signed(first[rows], second[rows], weights[rows], joint[rows]) for rows in parts]
    ordered = [_ordered(scores, weights, joint) for scores in (first, second)]
    return torch.cat([first.new_zeros(0).double(), *same]) / (ordered[0] * ordered[1]).sqrt()


def rank_biased_overlap(first: Tensor, second: Tensor, weight: Tensor, p: float = PERSISTENCE) -> Tensor:
    """Extrapolated rank-biased overlap (Webber et al., 2010, equation 32) of two orders of the same items [B].

    1 for equal orders. It is a sum over items of a function of the larger rank, so weights make it unbiased.
    """
    size = weight.sum(1).round().long()  # [B] items of the full input
    steps = torch.arange(1, int(size.sum() and size.max()) + 1, dtype=torch.float64, device=weight.device)
    terms = torch.cat([steps.new_zeros(1), (p**steps / steps).cumsum(0)])  # [depth + 1]
    worst = torch.maximum(first, second).round().long()
    inside = (worst <= size[:, None]) & (weight > 0)
    tail = terms[size][:, None] - terms[(worst - 1).clamp(0, len(steps))]
    each = (1 - p) / p * tail + (p ** size.double() / size.clamp(min=1))[:, None]
    return (weight * each * inside).sum(1)


def _by_stratum(sample: Sample) -> Tensor:
    """The weight of every item in the column of its stratum, 0 in the others [B, n, strata]."""
    last = int(sample.stratum.max()) if sample.stratum.numel() else 0
    strata = torch.arange(last + 1, device=sample.stratum.device)
    return sample.weight[:, :, None] * (sample.stratum[:, :, None] == strata)


def _joint(weights: Tensor) -> Tensor:
    """Inverse joint inclusion probability of two items of a stratum over the product of their weights, - 1 [B, strata].

    Two of m items out of N of one stratum are both drawn with probability m (m - 1) / (N (N - 1)), where the weights
    add up to N.
    """
    drawn, size = (weights > 0).sum(1).double(), weights.sum(1)
    return torch.where(drawn > 1, drawn * (size - 1) / ((drawn - 1) * size) - 1, 0.0)


def _signed(first: Tensor, second: Tensor, weights: Tensor, joint: Tensor) -> Tensor:
    """Weight of the pairs in the same order minus that of the pairs in opposite order [B]; every pair counts twice."""
    above = first[:, :, None] > first[:, None, :]
    up, down = second[:, :, None] > second[:, None, :], second[:, :, None] < second[:, None, :]
    signs = ((above & up).to(torch.int8) - (above & down).to(torch.int8)).double()  # [B, n, n]
    sums = signs @ weights  # [B, n, strata]
    whole = (weights.sum(2) * sums.sum(2)).sum(1)
    return 2 * (whole + (joint * (weights * sums).sum(1)).sum(1))


def _ordered(scores: Tensor, weights: Tensor, joint: Tensor) -> Tensor:
    """Weight of the pairs with different scores [B]; every pair counts twice."""
    order = scores.argsort(dim=1)
    values, sorted_weights = scores.gather(1, order), weights.gather(1, order[:, :, None].expand_as(weights))
    new = torch.ones_like(values, dtype=torch.bool)
    new[:, 1:] = values[:, 1:] != values[:, :-1]
    run = (new.cumsum(1) - 1)[:, :, None].expand_as(weights)
    tied = torch.zeros_like(weights).scatter_add_(1, run, sorted_weights)  # [B, runs, strata]
    whole = weights.sum((1, 2)).square() - tied.sum(2).square().sum(1)
    within = weights.sum(1).square() - tied.square().sum(1)
    return whole + (joint * within).sum(1)
