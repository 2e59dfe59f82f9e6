"""Look-ups of items in the sets of their own batch row."""

import torch
from torch import Tensor


def is_in(items: Tensor, rows: Tensor) -> Tensor:
    """Whether each item [B, K] is in its row of `rows` [B, R]; negative items are padding and never are.

    Sorting needs memory for B * (K + R) values; comparing all pairs would need B * K * R.
    """
    if rows.shape[1] == 0 or items.shape[1] == 0:
        return torch.zeros_like(items, dtype=torch.bool)
    ordered = rows.sort(dim=1).values
    at = torch.searchsorted(ordered, items.contiguous()).clamp(max=ordered.shape[1] - 1)
    return (ordered.gather(1, at) == items) & (items >= 0)


def sums_of(items: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The sum of the values [B, P] whose key [B, P] is the item, for each item [B, K]; 0 where none is.

    Memory grows with B * (K + P), not with the catalogue.
    """
    return _reduced(items, keys, values, "sum")


def largest_of(items: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """As `sums_of`, but the largest of the values, which are not negative."""
    return _reduced(items, keys, values, "amax")


def _reduced(items: Tensor, keys: Tensor, values: Tensor, reduce: str) -> Tensor:
    if items.shape[1] == 0:
        return values.new_zeros(items.shape)
    ordered = items.sort(dim=1).values
    at = torch.searchsorted(ordered, keys.contiguous()).clamp(max=ordered.shape[1] - 1)  # [B, P]
    hits = (ordered.gather(1, at) == keys) & (keys >= 0)
    found = values.new_zeros(items.shape).scatter_reduce_(1, at, values * hits, reduce)
    return found.gather(1, torch.searchsorted(ordered, items.contiguous()))
