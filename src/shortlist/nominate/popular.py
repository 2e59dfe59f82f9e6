"""Nominators that ignore the user: most popular and most recent items."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_distinct, check_floats, check_shape, check_whole
from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.grammar import Nominator
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class Popular(Nominator):
    """The items with the most events, of all time or of the last `days` of the log."""

    order: Tensor  # [N] item rows, most popular first
    share: Tensor  # [N] share of events, by position in `order`
    days: float = setting(
        0.0, "Length of the window before the end of the log in days; 0 = all time.", least=0
    )
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        _check_order(self.order, "share", self.share, n_items)

    def nominate(self, query: Query) -> Candidates:
        return _first(self.order, self.share, query, self.limit, self.exclude_seen)

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        return {"score": _looked_up(self._by_item, items)}

    @cached_property
    def _by_item(self) -> Tensor:
        return _by_item(self.order, self.share)


@dataclass(frozen=True, eq=False, repr=False)
class Recent(Nominator):
    """The items whose first event is the most recent, so that new items can enter the pool."""

    order: Tensor  # [N] item rows, newest first
    age: Tensor  # [N] days between the item's first event and the end of the log, by position in `order`
    exclude_seen: bool = setting(False, "Leave out the request's history before the best items are taken.")

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        _check_order(self.order, "age", self.age, n_items)

    def nominate(self, query: Query) -> Candidates:
        return _first(self.order, -torch.log1p(self.age), query, self.limit, self.exclude_seen)

    def item_columns(self, query: Query, items: Tensor) -> Mapping[str, Tensor]:
        return {"score": _looked_up(self._by_item, items)}

    @cached_property
    def _by_item(self) -> Tensor:
        return _by_item(self.order, -torch.log1p(self.age))


def _first(order: Tensor, values: Tensor, query: Query, limit: int, exclude_seen: bool) -> Candidates:
    """The first items of an order with their values, for every request; without its history if `exclude_seen`."""
    width = min(limit + (query.history.shape[1] if exclude_seen else 0), len(order))
    items, scores = (one[:width].expand(len(query), width) for one in (order, values))
    if not exclude_seen:
        return Candidates.of(items, scores)
    seen = is_in(items, query.history)
    at = seen.to(torch.uint8).sort(dim=1, stable=True).indices[:, :limit]
    return Candidates.of(items.masked_fill(seen, -1).gather(1, at), scores.gather(1, at))


def _by_item(order: Tensor, values: Tensor) -> Tensor:
    """Values by item row instead of by position; NaN for items that are not ordered, and for one row more."""
    size = int(order.max()) + 2 if len(order) else 1
    return torch.full((size,), torch.nan, device=order.device).scatter(0, order, values.float())


def _looked_up(values: Tensor, items: Tensor) -> Tensor:
    """The values of items [B, K]; rows beyond the last have none."""
    return values[items.clamp(max=len(values) - 1)]


def _check_order(order: Tensor, name: str, values: Tensor, n_items: int) -> None:
    check_shape("order", order, None)
    check_whole("order", order, 0, n_items)
    check_distinct("order", order)
    check_shape(name, values, len(order))
    check_floats(name, values)
