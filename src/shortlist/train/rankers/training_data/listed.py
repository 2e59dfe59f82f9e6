"""Items of requests as lists of candidates."""

import torch
from torch import Tensor

from shortlist.data import Candidates


def candidates_of(found: Candidates, rows: Tensor, items: Tensor) -> Candidates:
    """Items [I, M] of requests `rows` [I] as candidates: retrieved items keep their columns, others have NaN there.

    An item that was not retrieved gets the lowest score of its request, as if it had been nominated last.
    """
    at, hit = places(found, rows, items)
    empty = torch.full(items.shape, torch.nan)
    columns = {
        name: placed(one, rows, at, hit, empty)
        for name, one in found.columns.items()
        if one.is_floating_point()
    }
    return Candidates.of(items, placed(found.scores, rows, at, hit, _lowest(found)[rows, None]), columns)


def valid_items(found: Candidates) -> Tensor:
    """The items of candidates [B, K], -1 at empty places."""
    return found.items.masked_fill(~found.valid, -1)


def places(found: Candidates, rows: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """The position of each item among the candidates of its request, and whether it is there [I, M] each."""
    width = found.shape[1]
    if not width:
        return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
    keys, order = valid_items(found).sort(dim=1)  # [B, K]
    own = keys[rows]
    at = torch.searchsorted(own, items.contiguous()).clamp(max=width - 1)
    return order[rows].gather(1, at), (own.gather(1, at) == items) & (items >= 0)


def placed(column: Tensor, rows: Tensor, at: Tensor, hit: Tensor, otherwise: Tensor) -> Tensor:
    """A column of candidates [B, K] at these positions of requests `rows` [I, M]; `otherwise` where nothing is hit."""
    if not column.shape[1]:
        return otherwise.expand(at.shape).clone()
    return torch.where(hit, column[rows].gather(1, at), otherwise)


def _lowest(found: Candidates) -> Tensor:
    """The lowest score of each request [B], 0 without candidates."""
    if not found.shape[1]:
        return torch.zeros(len(found.items))
    lowest = found.scores.masked_fill(~found.valid, torch.inf).amin(1)
    return torch.where(torch.isfinite(lowest), lowest, 0.0)
