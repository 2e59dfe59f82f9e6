"""Who may not be shown: what was seen, what is not available."""

from dataclasses import dataclass, field

from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
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
        return ~is_in(found.items, met)


@dataclass(frozen=True, eq=False, repr=False)
class Excluded(Filter):
    """Drop what the request itself does not want: `context["exclude"]` [B, E], -1 = padding."""

    def keep(self, query: Query, found: Candidates) -> Tensor:
        wanted = query.context.get("exclude")
        return found.valid if wanted is None else ~is_in(found.items, wanted)


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
