"""Who may not be shown: what was seen, what is not available."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Filter


@dataclass(frozen=True, eq=False, repr=False)
class Seen(Filter):
    """Drop what the user met among the last `last` items of the history; 0 means all of it."""

    last: int = 0

    def __post_init__(self) -> None:
        if self.last < 0:
            raise ConfigError(f"seen {self.title!r}: last must be 0 or more, got {self.last}")

    def keep(self, query: Query, found: Candidates) -> Tensor:
        met = query.history[:, -self.last :] if self.last else query.history  # [B, H]
        return _outside(met, found)


@dataclass(frozen=True, eq=False, repr=False)
class Excluded(Filter):
    """Drop what the request itself does not want: `context["exclude"]` [B, E], -1 = padding."""

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return _outside(query.context["exclude"], found) if "exclude" in query.context else found.valid


def _outside(rows: Tensor, found: Candidates) -> Tensor:
    """True where a candidate is not among the rows [B, E] of its request [B, K]."""
    if rows.shape[1] == 0:
        return found.valid
    ordered = rows.sort(dim=1).values.contiguous()
    at = torch.searchsorted(ordered, found.items.contiguous()).clamp(max=ordered.shape[1] - 1)
    return ordered.gather(1, at) != found.items


@dataclass(frozen=True, eq=False, repr=False)
class Available(Filter):
    """Keep items that are on the allow list (if there is one), not on the deny list and of the wanted categories.

    `only` and `never` name categories for every request; the request itself may name the categories it wants in
    `context["category"]` [B], -1 for any.
    """

    allowed: Tensor  # [N] bool, by item row
    category: Tensor  # [N] row of the item's category
    only: tuple[str, ...] = field(default=())
    never: tuple[str, ...] = field(default=())

    def keep(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)
        keep = self.allowed[rows]
        if "category" in query.context:
            wanted = query.context["category"][:, None]
            keep = keep & ((wanted < 0) | (self.category[rows] == wanted))
        return keep
