"""Where items of some nodes may stand below them, and who stands there."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.index.tree.assign import balanced_assign, priority_of
from shortlist.index.tree.local_search import improve
from shortlist.train.tree.votes import Whole

# Stay, be served in the order of priority, change places from where all stand, or the better of the last two with
# changes after serving.
WAYS = ("stay", "serve", "change", "better")


@dataclass(frozen=True, eq=False)
class Places:
    """Items of some groups and what each is worth at the candidates of its group."""

    wished: NDArray[np.float32]  # [n, width]
    room: Whole  # [G, width]
    group: Whole  # [n]
    counts: Whole  # [n]
    priority: str = "count"

    def found(self, way: str, usual: Whole) -> tuple[Whole, int]:
        """The candidate of every item, by one of the `WAYS`, and how many groups took what serving began."""
        if way == "stay":
            return usual, 0
        if way == "serve":
            return self._served(), len(self.room)
        if way == "change":
            return self._improved(usual), 0
        with ThreadPoolExecutor(2) as pool:
            changed, served = pool.map(self._improved, (usual, self._served()))
        better = self.totals(served, self.wished) > self.totals(changed, self.wished)
        return np.where(better[self.group], served, changed), int(better.sum())

    def totals(self, chosen: Whole, table: NDArray[np.float32]) -> NDArray[np.float64]:
        """What each group adds up to [G]."""
        worth = np.where(self.counts > 0, table[np.arange(len(chosen)), chosen], 0).astype(np.float64)
        return np.bincount(self.group, worth, len(self.room)).astype(np.float64)

    def _served(self) -> Whole:
        priority = priority_of(self.priority, self.wished, self.counts, self.room, self.group)
        return balanced_assign(self.wished, self.room, priority, self.group, self.counts > 0)

    def _improved(self, chosen: Whole) -> Whole:
        return improve(self.wished, chosen, self.room, self.group, self.counts > 0)
