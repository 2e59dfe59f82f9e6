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
        lengths = part.stops - part.cuts
        request = np.repeat(np.arange(len(part)), lengths)  # [E] of each event after a cut
        at = np.arange(len(request)) - np.repeat(lengths.cumsum() - lengths - part.cuts, lengths)
        items = self.events.items[at].astype(np.int64)
        first = _first_events(request, items, self.events.n_items)
        return torch.from_numpy(_padded(items[first], np.bincount(request[first], minlength=len(part))))

    def history_lengths(self) -> NDArray[np.int64]:
        """Number of events in each history [C]."""
        return self.cuts - self.starts


def _first_events(request: Positions, items: Positions, n_items: int) -> Positions:
    """Positions of the first event of each item within each request, ascending."""
    _, first = np.unique(request * n_items + items, return_index=True)
    return np.sort(first)


def _padded(items: Positions, lengths: Positions) -> Positions:
    """Rows of these lengths one after the other, padded with -1 [C, R]."""
    padded = np.full((len(lengths), lengths.max(initial=0)), -1, np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = items
    return padded
