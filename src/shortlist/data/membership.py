"""Which items of a row are among others of the same row."""

import torch
from torch import Tensor


def is_in(items: Tensor, rows: Tensor) -> Tensor:
    """Whether each item [B, K] stands in its row of `rows` [B, R]; negative items, which are padding, never do.

    By sorting, so that memory stays at B * (K + R) where comparing all with all would take B * K * R.
    """
    if rows.shape[1] == 0 or items.shape[1] == 0:
        return torch.zeros_like(items, dtype=torch.bool)
    ordered = rows.sort(dim=1).values
    at = torch.searchsorted(ordered, items.contiguous()).clamp(max=ordered.shape[1] - 1)
    return (ordered.gather(1, at) == items) & (items >= 0)
