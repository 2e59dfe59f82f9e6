"""Nominators that ignore the user: most popular and most recent items."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_distinct, check_floats, check_shape, check_whole
from shortlist.data import Candidates, Query
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

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        _check_order(self.order, "share", self.share, n_items)

    def nominate(self, query: Query) -> Candidates:
        width = min(self.limit, len(self.order))
        items = self.order[:width].expand(len(query), width)
        return Candidates.of(items, self.share[:width].expand(len(query), width))


@dataclass(frozen=True, eq=False, repr=False)
class Recent(Nominator):
    """The items whose first event is the most recent, so that new items can enter the pool."""

    order: Tensor  # [N] item rows, newest first
    age: Tensor  # [N] days between the item's first event and the end of the log, by position in `order`

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        _check_order(self.order, "age", self.age, n_items)

    def nominate(self, query: Query) -> Candidates:
        width = min(self.limit, len(self.order))
        items = self.order[:width].expand(len(query), width)
        return Candidates.of(items, -torch.log1p(self.age[:width]).expand(len(query), width))


def _check_order(order: Tensor, name: str, values: Tensor, n_items: int) -> None:
    check_shape("order", order, None)
    check_whole("order", order, 0, n_items)
    check_distinct("order", order)
    check_shape(name, values, len(order))
    check_floats(name, values)
