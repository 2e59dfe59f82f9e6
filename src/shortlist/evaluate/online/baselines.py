"""Popularity before evaluated events: of the training events, or of a window of time before each event."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Interactions
from shortlist.data.held_out import Positions
from shortlist.errors import ConfigError
from shortlist.evaluate.online.online_test import OnlineTest


@dataclass(frozen=True, eq=False)
class TrainPopularity:
    """The number of training events of every item."""

    train: Interactions

    def scores_at(self, test: OnlineTest, rows: Positions) -> Tensor:
        """The same counts for every event [b, N]."""
        return self._counts.expand(len(rows), -1)

    @cached_property
    def _counts(self) -> Tensor:
        return torch.from_numpy(self.train.popularity.astype(np.float32))


@dataclass(frozen=True, eq=False)
class RecentPopularity:
    """The number of events of every item, of all users, in the `window` milliseconds before an event.

    Events at the time of the evaluated one are not counted.
    """

    events: Interactions
    window: int
    _order: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ConfigError(f"recent popularity: expected a window of 1 ms or more, got {self.window}")
        object.__setattr__(self, "_order", np.argsort(self.events.times, kind="stable"))

    @cached_property
    def _times(self) -> NDArray[np.int64]:
        return self.events.times[self._order]

    @cached_property
    def _items(self) -> NDArray[np.int32]:
        return self.events.items[self._order]

    def scores_at(self, test: OnlineTest, rows: Positions) -> Tensor:
        """Counts before events in the order of time: those of the first one, then the changes [b, N]."""
        times = test.events.times[test.positions[rows]]
        new = np.searchsorted(self._times, times, "left")  # [b] events before each
        old = np.searchsorted(self._times, times - self.window, "left")  # [b] events before its window
        counts = np.zeros((len(rows), test.n_items), np.float32)
        counts[0] = np.bincount(self._items[old[0] : new[0]], minlength=test.n_items)
        for ends, change in ((new, 1.0), (old, -1.0)):
            place = np.repeat(np.arange(len(rows)), np.diff(ends, prepend=ends[0]))
            np.add.at(counts, (place, self._items[ends[0] : ends[-1]]), change)
        return torch.from_numpy(counts.cumsum(axis=0, dtype=np.float32))
