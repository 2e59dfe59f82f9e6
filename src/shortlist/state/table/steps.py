"""How far states move with an event, by group."""

import numpy as np
from numpy.typing import NDArray

from shortlist.state.table.records import ACTIVE, Records, vectors_of


class StepNorms:
    """Sums of |s' - s| over single events since the store was made, of users who are not active and of active ones."""

    def __init__(self) -> None:
        self.sums, self.counts = np.zeros(2), np.zeros(2, np.int64)

    def add(self, before: Records, after: Records, starts: NDArray[np.int64]) -> None:
        """Count the steps of users with one event."""
        single = np.flatnonzero(starts[1:] - starts[:-1] == 1)
        change = vectors_of(after[single]) - vectors_of(before[single])
        group = ((after["flags"][single] & ACTIVE) > 0).astype(np.int64)
        self.sums += np.bincount(group, np.sqrt((change * change).sum(1)), minlength=2)
        self.counts += np.bincount(group, minlength=2)

    def mean(self, active: bool) -> float:
        """The mean norm of a step in a group, NaN without one."""
        total, count = self.sums[int(active)], self.counts[int(active)]
        return float(total / count) if count else float("nan")
