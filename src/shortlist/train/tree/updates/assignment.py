"""Assignment of items to descendants of their nodes with limited capacity."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.index.tree.assign import balanced_assign, priority_of
from shortlist.index.tree.local_search import improve
from shortlist.train.tree.updates.likelihood import Ints

# Keep the current assignment; assign in the order of priority; swap from the current assignment; or the better of the
# last two, with swaps after the assignment.
STRATEGIES = ("keep", "assign", "swap", "best")


@dataclass(frozen=True, eq=False)
class AssignmentProblem:
    """Items of some groups with their values at the candidates of their group."""

    values: NDArray[np.float32]  # [n, width]
    capacity: Ints  # [G, width]
    group: Ints  # [n]
    counts: Ints  # [n]
    priority: str = "count"

    def solve(self, strategy: str, current: Ints) -> tuple[Ints, int]:
        """The candidate of every item by one of `STRATEGIES`, and in how many groups `assign` was the start."""
        if strategy == "keep":
            return current, 0
        if strategy == "assign":
            return self._assigned(), len(self.capacity)
        if strategy == "swap":
            return self._swapped(current), 0
        with ThreadPoolExecutor(2) as pool:
            swapped, assigned = pool.map(self._swapped, (current, self._assigned()))
        better = self.totals(assigned, self.values) > self.totals(swapped, self.values)
        return np.where(better[self.group], assigned, swapped), int(better.sum())

    def totals(self, chosen: Ints, values: NDArray[np.float32]) -> NDArray[np.float64]:
        """The summed values of each group [G]."""
        own = np.where(self.counts > 0, values[np.arange(len(chosen)), chosen], 0).astype(np.float64)
        return np.bincount(self.group, own, len(self.capacity)).astype(np.float64)

    def _assigned(self) -> Ints:
        priority = priority_of(self.priority, self.values, self.counts, self.capacity, self.group)
        return balanced_assign(self.values, self.capacity, priority, self.group, self.counts > 0)

    def _swapped(self, chosen: Ints) -> Ints:
        return improve(self.values, chosen, self.capacity, self.group, self.counts > 0)
