"""A cascade of stages on dense lists: every stage keeps the top of its input, and S says how far an item came.

`scores` are [B, T, n]: T stages score n items of B requests. Columns are in the order of item ids, which decides ties:
`by_item_id` brings them there. Padding has `mask` [B, n] False and never passes a stage.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shortlist.errors import ConfigError


def by_item_id(items: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
    """Items [B, n] in ascending order of ids, and the columns [B, n] or [B, T, n] in the same order."""
    order = items.argsort(dim=1, stable=True)
    moved = (
        one.gather(1, order) if one.ndim == 2 else one.gather(2, order[:, None].expand(one.shape))
        for one in columns
    )
    return items.gather(1, order), *moved


def stages_reached(scores: Tensor, caps: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """S [B, n]: the last stage that kept the item, 0 if the first dropped it, -1 for padding."""
    _check(scores, caps)
    alive = _present(scores, mask)
    reached = alive.long() - 1
    for stage, cap in enumerate(caps):
        alive = top_mask(scores[:, stage], cap, alive)
        reached += alive
    return reached


def survivors(scores: Tensor, caps: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Which items every stage of the cascade keeps [B, n]."""
    return stages_reached(scores, caps, mask) == len(caps)


def intersection(scores: Tensor, caps: Sequence[int], mask: Tensor | None = None) -> Tensor:
    """Which items are in the top of every stage's scores of the whole list: a subset of `survivors` [B, n]."""
    _check(scores, caps)
    present = _present(scores, mask)
    tops = [top_mask(scores[:, stage], cap, present) for stage, cap in enumerate(caps)]
    return torch.stack(tops).all(0)


def top_mask(scores: Tensor, cap: int, mask: Tensor | None = None) -> Tensor:
    """Whether an item is among the `cap` best scores [B, n] of its list; ties by column ascending."""
    return places(scores, mask) <= min(cap, scores.shape[1])  # padding has place n + 1


def places(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Places from 1, best first, ties by column ascending [B, n]; padding comes last with place n + 1."""
    present = _present(scores[:, None], mask)
    order = scores.argsort(dim=1, descending=True, stable=True)
    # A second stable sort moves padding to the end, whatever its scores.
    order = order.gather(1, (~present).gather(1, order).int().argsort(dim=1, stable=True))
    count = torch.arange(1, scores.shape[1] + 1, device=scores.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, count).masked_fill(~present, scores.shape[1] + 1)


def _present(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The mask, or True for all items of scores [B, T, n]."""
    return torch.ones_like(scores[:, 0], dtype=torch.bool) if mask is None else mask.bool()


def _check(scores: Tensor, caps: Sequence[int]) -> None:
    if scores.ndim != 3 or scores.shape[1] != len(caps) or min(caps, default=0) < 1:
        raise ConfigError(
            f"cascade: expected scores [B, T, n] and T positive capacities, got {list(scores.shape)} and "
            f"{list(caps)}; give one capacity per stage"
        )
