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
    """How rows of a log were sampled: `weight` [B, n] and the sampling stratum S [B, n] of every item."""

    weight: Tensor
    stratum: Tensor


def stage_consistency(
    first: Tensor,
    second: Tensor,
    cap: int,
    mask: Tensor | None = None,
    sample: Sample | None = None,
    ranks: tuple[Tensor, Tensor] | None = None,
) -> StageConsistency:
    """Compare the scores [B, n] of two stages for the same input; `cap` is the capacity of the next stage.

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
    width = max(1, PAIRS // max(first.shape[1] ** 2, 1))
    parts = []
    for at in range(0, len(first), width):
        rows = slice(at, at + width)
        weight = mask[rows].double() if sample is None else sample.weight[rows].double() * mask[rows]
        pairs = _pair_weights(weight, None if sample is None else sample.stratum[rows])
        parts.append(_tau(first[rows], second[rows], pairs))
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def rank_biased_overlap(first: Tensor, second: Tensor, weight: Tensor, p: float = PERSISTENCE) -> Tensor:
    """Extrapolated rank-biased overlap (Webber et al., 2010, equation 32) of two orders of the same items [B].

    1 for equal orders. It is a sum over items of a function of the larger rank, so weights make it unbiased.
    """
    size = weight.sum(1).round().long()  # [B] items of the full input
    steps = torch.arange(1, int(size.max()) + 1, dtype=torch.float64, device=weight.device)
    terms = torch.cat([steps.new_zeros(1), (p**steps / steps).cumsum(0)])  # [depth + 1]
    worst = torch.maximum(first, second).round().long()
    inside = (worst <= size[:, None]) & (weight > 0)
    tail = terms[size][:, None] - terms[(worst - 1).clamp(0, len(steps))]
    each = (1 - p) / p * tail + (p ** size.double() / size.clamp(min=1))[:, None]
    return (weight * each * inside).sum(1)


def _tau(first: Tensor, second: Tensor, pairs: Tensor) -> Tensor:
    one, two = (torch.sign(scores[:, :, None] - scores[:, None, :]).double() for scores in (first, second))
    ordered = [(pairs * sign.abs()).sum((1, 2)) for sign in (one, two)]
    return (pairs * one.nan_to_num() * two.nan_to_num()).sum((1, 2)) / (ordered[0] * ordered[1]).sqrt()


def _pair_weights(weight: Tensor, stratum: Tensor | None) -> Tensor:
    """The inverse of the joint inclusion probability of every pair [B, n, n].

    Two of m items out of N of one stratum are both drawn with probability m (m - 1) / (N (N - 1)), where N = m weight.
    """
    pairs = weight[:, :, None] * weight[:, None, :]
    if stratum is None:
        return pairs
    same = (stratum[:, :, None] == stratum[:, None, :]) & (pairs > 0)
    drawn = same.sum(2, dtype=torch.float64)  # [B, n] items of the own stratum
    size = drawn * weight
    correction = drawn * (size - 1) / ((drawn - 1) * size)
    return torch.where(same & (drawn > 1)[:, :, None], pairs * correction[:, :, None], pairs)
