"""Held-out requests: a user's history before a cut, and the relevant items after it."""

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
    """Request i has the history events[starts[i]:cuts[i]] and the relevant items of events[cuts[i]:stops[i]].

    The arrays hold positions in `events`; no event is copied.
    """

    events: Interactions
    starts: Positions  # [C]
    cuts: Positions  # [C]
    stops: Positions  # [C]

    def __len__(self) -> int:
        return len(self.cuts)

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of each request [C]."""
        return self.events.users[self.cuts].astype(np.int64)

    def take(self, rows: Positions | slice) -> "HeldOut":
        """A subset of the requests."""
        return HeldOut(self.events, self.starts[rows], self.cuts[rows], self.stops[rows])

    def query(self, rows: Positions | slice = slice(None), width: int = 69) -> Query:
        """Requests with the last `width` items of their histories, at the time of the first relevant event."""
        part = self.take(rows)
        history = gather(self.events, part.starts, part.cuts, width)
        return Query(
            torch.from_numpy(part.users),
            torch.from_numpy(history.astype(np.int64)),
            torch.from_numpy(self.events.times[part.cuts].copy()),
            torch.from_numpy(part.users.copy()),
        )

    def relevant(self, rows: Positions | slice = slice(None)) -> Tensor:
        """The distinct items after the cut in order of time, padded with -1 [C, R]."""
        part = self.take(rows)
        sets = [_distinct(self.events.items[a:b]) for a, b in zip(part.cuts, part.stops, strict=True)]
        widest = max((len(items) for items in sets), default=0)
        padded = np.full((len(sets), widest), -1, np.int64)
        for row, items in zip(padded, sets, strict=True):
            row[: len(items)] = items
        return torch.from_numpy(padded)

    def history_lengths(self) -> NDArray[np.int64]:
        """Number of events in each history [C]."""
        return self.cuts - self.starts


def _distinct(items: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each item once, in the order of its first event."""
    _, first = np.unique(items, return_index=True)
    return items[np.sort(first)]
