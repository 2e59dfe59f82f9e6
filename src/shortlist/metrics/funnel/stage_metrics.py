"""Metrics of a whole cascade: joint and per-stage recall, the utility that every stage loses, the value of a stage.

`truth` [B, n] marks the ground truth: the top k by the final stage's score, by relevance, or the shown positives. The
caller names which.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.errors import DataError
from shortlist.metrics.funnel.cascade import survivors, top_mask


@dataclass(frozen=True, eq=False)
class UtilityLost:
    """Best utility of the final slots inside the output of every stage, and what each stage loses of it."""

    best: Tensor  # [B, T + 1], the first is that of the whole input
    lost: Tensor  # [B, T]: at least 0, adds up to best[:, 0] - best[:, T]


def joint_recall(scores: Tensor, caps: Sequence[int], truth: Tensor, mask: Tensor | None = None) -> Tensor:
    """Recall@k@K: the share of the k true items that the cascade keeps among its last K = caps[-1] [B]."""
    return _recall(survivors(scores, caps, mask), truth)


def stage_recall(scores: Tensor, cap: int, truth: Tensor, mask: Tensor | None = None) -> Tensor:
    """The share of the true items in the top `cap` of one stage's scores [B, n] of the whole list [B]."""
    return _recall(top_mask(scores, cap, mask), truth)


def utility_lost(
    relevance: Tensor, reached: Tensor, n_stages: int, slots: int, weight: Tensor | None = None
) -> UtilityLost:
    """U_i* is the sum of the `slots` largest relevances [B, n] among items with S >= i; stage i loses U_{i-1}* - U_i*.

    `reached` holds S [B, n], -1 for padding. On a sampled log `weight` is 1 / incl_prob: an item stands for that many
    equal ones. Relevance comes from an unbiased model: print its calibration next to the result.
    """
    present = reached >= 0
    if not (relevance[present] >= 0).all():
        raise DataError(
            "utility lost: expected relevance >= 0 of every candidate, got NaN or negative values"
        )
    values, order = relevance.masked_fill(~present, 0.0).double().sort(dim=1, descending=True, stable=True)
    stage = reached.gather(1, order)
    weights = torch.ones_like(values) if weight is None else weight.double().gather(1, order)
    best = [_filled(values, weights * (stage >= i), slots) for i in range(n_stages + 1)]
    utility = torch.stack(best, dim=1)  # [B, T + 1]
    return UtilityLost(utility, utility[:, :-1] - utility[:, 1:])


def cascade_utility(
    scores: Tensor, caps: Sequence[int], relevance: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Sum of relevance [B, n] of the items that the cascade keeps [B]."""
    return (relevance.double() * survivors(scores, caps, mask)).sum(1)


def stage_value(
    scores: Tensor,
    caps: Sequence[int],
    relevance: Tensor,
    stage: int,
    replacement: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Utility with stage number `stage` (from 1) scored by `replacement` [B, n] minus the utility as it is [B].

    Replace by random scores, by the true relevance, or by slot-price scores; the other stages stay fixed.
    """
    changed = scores.clone()
    changed[:, stage - 1] = replacement.to(scores.dtype)
    return cascade_utility(changed, caps, relevance, mask) - cascade_utility(scores, caps, relevance, mask)


def _recall(kept: Tensor, truth: Tensor) -> Tensor:
    """Share of the true items that are kept, NaN without any."""
    return (kept & truth.bool()).sum(1).double() / truth.bool().sum(1).double()


def _filled(values: Tensor, weights: Tensor, slots: int) -> Tensor:
    """Sum of values over the first `slots` of weight, values descending [B]."""
    before = weights.cumsum(1) - weights
    return (values * torch.minimum(weights, (slots - before).clamp(min=0))).sum(1)
