"""Sliding windows over users' histories: training instances as positions, not copies."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.blocks import positions_of
from shortlist.data.interactions import Interactions
from shortlist.data.query import Query


@dataclass(frozen=True, eq=False)
class Windows:
    """Training instances (history, next item); the target of instance i is the event at `ends[i]`.

    A window of `length` holds up to `length - 1` inputs and one target. It never crosses into another user, and its
    history is padded on the left with -1.
    """

    events: Interactions
    ends: NDArray[np.int32]  # [M] positions of the targets
    length: int = 70

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def targets(self) -> NDArray[np.int32]:
        """The next item of each instance [M]."""
        return self.events.items[self.ends]

    def histories(self, rows: NDArray[np.int64] | slice) -> NDArray[np.int32]:
        """The inputs of some instances [m, length - 1]."""
        ends = self.ends[rows].astype(np.int64)
        return gather(self.events, self.events.starts[self.events.users[ends]], ends, self.length - 1)

    def batch(self, rows: NDArray[np.int64] | slice) -> tuple[Query, Tensor]:
        """Some instances as requests, with their targets [m]."""
        ends = self.ends[rows].astype(np.int64)
        query = Query(
            torch.from_numpy(self.events.users[ends].astype(np.int64)),
            torch.from_numpy(self.histories(rows).astype(np.int64)),
            torch.from_numpy(self.events.times[ends].copy()),
            torch.from_numpy(ends),
        )
        return query, torch.from_numpy(self.events.items[ends].astype(np.int64))


def sliding(events: Interactions, length: int = 70, min_history: int = 14) -> Windows:
    """Every window with at least `min_history` inputs, stride 1: n events give n - `min_history` instances."""
    skipped = min(max(min_history, 0), len(events))
    # Events are sorted by user: an event has `skipped` predecessors if the one `skipped` back has the same user.
    deep = events.users[skipped:] == events.users[: len(events) - skipped]
    return Windows(events, positions_of(deep, skipped), length)


def gather(
    events: Interactions, starts: NDArray[np.int64], stops: NDArray[np.int64], width: int
) -> NDArray[np.int32]:
    """The last `width` items in each [start, stop), padded on the left with -1 [m, width]."""
    at = stops[:, None] - np.arange(width, 0, -1)  # [m, width]
    inside = at >= starts[:, None]
    return np.where(inside, events.items[np.where(inside, at, 0)] if len(events) else -1, -1).astype(np.int32)
