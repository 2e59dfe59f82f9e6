"""Dense lists: what all objectives compute from scores [B, L], labels [B, L] and a mask [B, L] of items."""

import torch
from torch import Tensor

from shortlist.errors import ConfigError

REDUCTIONS = ("sum", "mean")
Cap = int | Tensor
"""The number of items that a stage keeps of a list: one for all lists, or one for each [B, 1]."""


def valid_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores with 0 at padding, whatever stands there; padding gets no gradient."""
    return torch.where(mask, scores, 0.0)


def preferred(labels: Tensor, mask: Tensor) -> Tensor:
    """True where item i has a larger label than item j and both are valid [B, L, L]."""
    larger = labels[:, :, None] > labels[:, None, :]
    return larger & mask[:, :, None] & mask[:, None, :]


def check_cap(cap: Cap) -> None:
    """Refuse a stage that keeps nothing of every list."""
    if isinstance(cap, int) and cap < 1:
        raise ConfigError(f"the capacity of a stage must be at least 1, got {cap}")


def sizes_of(cap: Cap, like: Tensor) -> Tensor:
    """The capacities as a tensor [B or 1, 1] on the device of `like`, made there: a CUDA graph copies no CPU tensor."""
    return cap if isinstance(cap, Tensor) else torch.full((1, 1), cap, device=like.device)


def first_places(mask: Tensor, cap: Cap) -> Tensor:
    """True for the first `cap` places of each list [B, L]."""
    return (torch.arange(mask.shape[1], device=mask.device) < cap).expand(mask.shape)


def has_pair(labels: Tensor, mask: Tensor) -> Tensor:
    """True for lists with two valid items of different labels [B]; other lists have nothing to rank."""
    if not labels.shape[1]:
        return torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    values = labels if labels.is_floating_point() else labels.double()
    return values.masked_fill(~mask, -torch.inf).amax(1) > values.masked_fill(~mask, torch.inf).amin(1)


def mean_over(values: Tensor, mask: Tensor, weight: Tensor | None = None) -> Tensor:
    """The mean of the values over the valid places of each list, weighted if weights are given; 0 without any.

    The first axis is the list, all others are averaged: [B, ...] -> [B].
    """
    share = mask.to(values.dtype) if weight is None else torch.where(mask, weight.to(values.dtype), 0.0)
    total = share.flatten(1).sum(1)
    return torch.where(mask, values, 0.0).mul(share).flatten(1).sum(1) / total.masked_fill(total == 0, 1.0)


def reduce_pairs(
    losses: Tensor, pairs: Tensor, weight: Tensor | None, reduction: str, factor: Tensor | None = None
) -> Tensor:
    """Losses of pairs [B, L, L], times a factor, as one loss per list [B]: their sum, or their mean over pairs.

    The weight of a pair is the product of its items' weights [B, L]. Losses must be finite where there is no pair.
    """
    if reduction not in REDUCTIONS:
        raise ConfigError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    share = pairs.to(losses.dtype)
    if weight is not None:
        clean = weight.to(losses.dtype)
        share = share * clean[:, :, None] * clean[:, None, :]
    total = losses.mul(share if factor is None else share * factor).sum((1, 2))
    if reduction == "sum":
        return total
    count = share.sum((1, 2))
    return total / count.masked_fill(count == 0, 1.0)


@torch.no_grad()
def ranks(scores: Tensor, mask: Tensor, ids: Tensor | None = None) -> Tensor:
    """1-based ranks by descending score [B, L], padding last; equal scores by ascending id, else by place."""
    if ids is None:
        return _places(scores.masked_fill(~mask, -torch.inf).argsort(dim=1, descending=True, stable=True))
    by_id = ids.argsort(dim=1, stable=True)
    own = ranks(scores.gather(1, by_id), mask.gather(1, by_id))
    return torch.empty_like(own).scatter_(1, by_id, own)


def _places(order: Tensor) -> Tensor:
    """The 1-based place of every item in its row of `order` [B, L]."""
    place = torch.arange(1, order.shape[1] + 1, device=order.device).expand(order.shape)
    return torch.empty_like(order).scatter_(1, order, place)
