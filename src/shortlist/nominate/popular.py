"""What everybody takes: of all time, or of late."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Nominator


@dataclass(frozen=True, eq=False, repr=False)
class Popular(Nominator):
    """The items with the most events in the last `days` before the log ended; 0 days means all time."""

    order: Tensor  # [N] item rows, most popular first
    share: Tensor  # [N] of events, by place in `order`
    days: float = 0.0

    def __post_init__(self) -> None:
        if not self.days >= 0:
            raise ConfigError(f"popular {self.title!r}: days must be 0 or more, got {self.days}")

    def nominate(self, query: Query) -> Candidates:
        width = min(self.limit, len(self.order))
        items = self.order[:width].expand(len(query), width)
        return Candidates.of(items, self.share[:width].expand(len(query), width))


@dataclass(frozen=True, eq=False, repr=False)
class Recent(Nominator):
    """The items that appeared last: the door by which new ones come in."""

    order: Tensor  # [N] item rows, newest first
    age: Tensor  # [N] days between the item's first event and the end of the log, by place in `order`

    def nominate(self, query: Query) -> Candidates:
        width = min(self.limit, len(self.order))
        items = self.order[:width].expand(len(query), width)
        return Candidates.of(items, -torch.log1p(self.age[:width]).expand(len(query), width))
