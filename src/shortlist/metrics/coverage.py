"""Catalogue metrics of rankings: coverage, Gini index of exposure, and novelty."""

import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError


def coverage(ranked: Tensor, n_items: int, k: int) -> float:
    """The share of all items that are in the top k of any user: `|union of slates|` / n_items."""
    return float((_exposure(ranked, n_items, k) > 0).double().mean())


def gini(ranked: Tensor, n_items: int, k: int) -> float:
    """Gini index of exposure: Σ (2i - n - 1) x_i / (n Σ x), x ascending; 0 is uniform, near 1 is concentrated.

    Items that are never shown count with 0; NaN when no item was shown.
    """
    shown = _exposure(ranked, n_items, k).sort().values.to(torch.float64)
    weight = 2 * torch.arange(1, n_items + 1, dtype=torch.float64, device=shown.device) - n_items - 1
    return float((weight * shown).sum() / (n_items * shown.sum()))


def novelty(ranked: Tensor, popularity: Tensor, n_users: int, k: int) -> Tensor:
    """Mean self-information, -log2(popularity / n_users), of the top k items of each user [B], in bits.

    `popularity` [n_items] is the number of users, of `n_users`, who interacted with each item. An item without
    interactions counts as one user, so that the value is finite. Empty places do not count; NaN for an empty ranking.
    """
    top = ranked[:, :k]
    share = popularity.to(torch.float64).clamp(min=1, max=n_users) / n_users
    bits = -torch.log2(share)[top.clamp(min=0)]  # [B, k]
    filled = top >= 0
    return (bits * filled).sum(1) / filled.sum(1)


def _exposure(ranked: Tensor, n_items: int, k: int) -> Tensor:
    """How often each item is in the top k [n_items]."""
    if n_items < 1 or k < 1:
        raise ConfigError(f"exposure: n_items and k must be positive, got {n_items} and {k}")
    top = ranked[:, :k]
    shown = top[top >= 0]
    if shown.numel() and int(shown.max()) >= n_items:
        raise DataError(f"exposure: item row {int(shown.max())} is outside the catalogue of {n_items} items")
    return torch.bincount(shown, minlength=n_items)
