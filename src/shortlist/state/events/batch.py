"""Events of a batch as columns, in the order of arrival and by user."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Events:
    """Events by user: user r has those from starts[r] to starts[r + 1], in their order."""

    users: Numbers  # [R] distinct
    starts: NDArray[np.int64]  # [R + 1]
    items: Numbers  # [E] numbers in the log
    times: NDArray[np.int64]  # [E]
    ids: NDArray[np.uint64]  # [E]

    def take(self, rows: NDArray[np.int64]) -> "Events":
        """The events of some of the users."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], lengths.cumsum()])
        at = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], lengths)
        return Events(self.users[rows], starts, self.items[at], self.times[at], self.ids[at])


@dataclass(frozen=True, eq=False)
class Batch:
    """Events in the order of arrival; users and items by their numbers in the log."""

    users: Numbers
    items: Numbers
    times: NDArray[np.int64]
    ids: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.users)

    def take(self, kept: Bools) -> "Batch":
        """Some of the events."""
        if kept.all():
            return self
        return Batch(self.users[kept], self.items[kept], self.times[kept], self.ids[kept])


def sorted_events(batch: Batch) -> Events:
    """The events by user, those of a user by time and id."""
    order = np.lexsort((batch.ids, batch.times, batch.users))
    users = batch.users[order]
    changes = np.flatnonzero(users[1:] != users[:-1]) + 1
    first = np.concatenate([np.zeros(min(len(users), 1), np.int64), changes])
    starts = np.concatenate([first, [len(users)]])
    return Events(users[first], starts, batch.items[order], batch.times[order], batch.ids[order])


def late_events(batch: Batch, last_times: NDArray[np.int64], window_ms: int) -> Bools:
    """Whether each event is more than the window older than those of its user that came before it, in the log or in
    the batch; `last_times` are those of the log by user.
    """
    if not len(batch):
        return np.zeros(0, bool)
    order = np.argsort(batch.users, kind="stable")
    users, times = batch.users[order], batch.times[order]
    before = last_times[users]
    same = users[1:] == users[:-1]
    distinct, ranks = np.unique(
        times, return_inverse=True
    )  # times of all users together would not fit 64 bits
    group = np.concatenate([np.zeros(1, np.int64), (~same).cumsum()]) * len(distinct)
    newest = distinct[np.maximum.accumulate(group + ranks) - group]
    before[1:][same] = np.maximum(before[1:], newest[:-1])[same]
    late = np.zeros(len(users), bool)
    late[order] = times < before - window_ms
    return late
