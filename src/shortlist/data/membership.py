"""Membership of items in the sets of their own batch row."""

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
