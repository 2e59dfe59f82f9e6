"""Held-out requests: what a user had met, and what the user met next."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.interactions import Interactions
from shortlist.data.query import Query
from shortlist.data.windows import gather

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Case i sees events[starts[i]:cuts[i]] and must foretell events[cuts[i]:stops[i]]; positions, not copies."""

    events: Interactions
    starts: Positions  # [C]
    cuts: Positions  # [C]
    stops: Positions  # [C]

    def __len__(self) -> int:
        return len(self.cuts)

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of each case [C]."""
        return self.events.users[self.cuts].astype(np.int64)

    def take(self, rows: Positions | slice) -> "HeldOut":
        """Some of the cases."""
        return HeldOut(self.events, self.starts[rows], self.cuts[rows], self.stops[rows])

    def query(self, rows: Positions | slice = slice(None), width: int = 69) -> Query:
        """Cases as requests that see the last `width` events before the cut."""
        some = self.take(rows)
        history = gather(self.events, some.starts, some.cuts, width)
        return Query(
            torch.from_numpy(some.users),
            torch.from_numpy(history.astype(np.int64)),
            torch.from_numpy(self.events.times[some.cuts].copy()),
            torch.from_numpy(some.users.copy()),
        )

    def relevant(self, rows: Positions | slice = slice(None)) -> Tensor:
        """What came next, each item once, padded with -1 [C, R]."""
        some = self.take(rows)
        sets = [_distinct(self.events.items[a:b]) for a, b in zip(some.cuts, some.stops, strict=True)]
        widest = max((len(one) for one in sets), default=0)
        padded = np.full((len(sets), widest), -1, np.int64)
        for row, one in zip(padded, sets, strict=True):
            row[: len(one)] = one
        return torch.from_numpy(padded)

    def history_lengths(self) -> NDArray[np.int64]:
        """How many events each case sees [C]."""
        return self.cuts - self.starts


def _distinct(items: NDArray[np.int32]) -> NDArray[np.int32]:
    """Items once each, in the order of their first event."""
    _, first = np.unique(items, return_index=True)
    return items[np.sort(first)]
