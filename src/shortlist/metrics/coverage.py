"""What rankings do to the catalogue: how much of it is shown, how evenly, and how far from the obvious."""

import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError


def coverage(ranked: Tensor, n_items: int, k: int) -> float:
    """The share of all items that stand among the first k of somebody: |union of slates| / n_items."""
    return float((_exposure(ranked, n_items, k) > 0).double().mean())


def gini(ranked: Tensor, n_items: int, k: int) -> float:
    """Σ (2i - n - 1) x_i / (n Σ x), x ascending: 0 when all are shown alike, near 1 when one has it all.

    Items never shown count with 0; NaN when nothing was shown at all.
    """
    shown = _exposure(ranked, n_items, k).sort().values.to(torch.float64)
    weight = 2 * torch.arange(1, n_items + 1, dtype=torch.float64, device=shown.device) - n_items - 1
    return float((weight * shown).sum() / (n_items * shown.sum()))


def novelty(ranked: Tensor, popularity: Tensor, n_users: int, k: int) -> Tensor:
    """The mean of -log2(popularity / n_users) over the first k items of each user [B], in bits.

    `popularity` [n_items] says how many of `n_users` users met each item. An item nobody met counts as met by
    one user, so that the value stays finite; empty places do not count; NaN for an empty ranking.
    """
    top = ranked[:, :k]
    share = popularity.to(torch.float64).clamp(min=1, max=n_users) / n_users
    bits = -torch.log2(share)[top.clamp(min=0)]  # [B, k]
    filled = top >= 0
    return (bits * filled).sum(1) / filled.sum(1)


def _exposure(ranked: Tensor, n_items: int, k: int) -> Tensor:
    """How often each item stands among the first k [n_items]."""
    if n_items < 1 or k < 1:
        raise ConfigError(f"exposure: n_items and k must be positive, got {n_items} and {k}")
    top = ranked[:, :k]
    shown = top[top >= 0]
    if shown.numel() and int(shown.max()) >= n_items:
        raise DataError(f"exposure: item row {int(shown.max())} is outside the catalogue of {n_items} items")
    return torch.bincount(shown, minlength=n_items)
