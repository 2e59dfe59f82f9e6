"""Blocks of slots for nominators, greedily by what they add, then exchanged while an exchange adds more."""

from dataclasses import dataclass

import numpy as np

from shortlist.metrics.nomination.coverage import Floats, Ints
from shortlist.metrics.nomination.prices import Covered, Price, Slots

SLACK = 1e-9
SWEEPS = 5  # of exchanges, each with what they leave over given away again


@dataclass(frozen=True, eq=False)
class Blocks:
    """Splits of at most `total` blocks, at most `most` of each nominator, whose price stays within a limit."""

    found: Covered
    most: Ints  # [N]
    total: int
    price: Price
    limit: float

    def best(self) -> Ints:
        """The blocks of each nominator [N]: greedy, then exchanges, and never less than one nominator alone covers.

        Where the hits of a list come late, no step and no exchange may lead to it.
        """
        best = self._improved(np.zeros_like(self.most))
        for nominator in range(len(self.most)):
            alone = self._alone(nominator)
            if self.found.total(alone) > self.found.total(best) + SLACK:
                best = self._improved(alone)
        return best

    def _alone(self, nominator: int) -> Ints:
        """As many blocks of one nominator as the limit allows."""
        blocks = np.zeros_like(self.most)
        most = min(self.total, int(self.most[nominator]))
        if most:
            price = self.price.added(nominator, blocks, most)
            blocks[nominator] = int((price <= self._left(blocks)).sum())
        return blocks

    def _improved(self, start: Ints) -> Ints:
        blocks = self.greedy(start)
        for _ in range(SWEEPS):
            before, blocks = blocks, self.greedy(self.exchanged(blocks))
            if np.array_equal(before, blocks):
                break
        return blocks

    def greedy(self, blocks: Ints) -> Ints:
        """Add blocks, each time the start of a list with the most coverage for its price.

        That start is the first piece of the least concave majorant of the gain, so a list whose hits come late is not
        left at 0. Slots that add nothing go to the nominators with the fewest.
        """
        blocks = blocks.copy()
        while True:
            found = [self._steepest(nominator, blocks) for nominator in range(len(blocks))]
            slope, step = max(found, key=lambda one: one[0])
            if slope <= 0:
                return self._filled(blocks) if isinstance(self.price, Slots) else blocks
            blocks[[one[0] for one in found].index(slope)] += step

    def exchanged(self, blocks: Ints) -> Ints:
        """Move blocks from one nominator to another, the best move first, until no move adds coverage."""
        while (found := self._best_move(blocks)) is not None:
            source, target, step = found
            blocks = blocks.copy()
            blocks[source] -= step
            blocks[target] += step
        return blocks

    def _steepest(self, nominator: int, blocks: Ints) -> tuple[float, int]:
        """The best gain for its price of the next blocks of a nominator, and how many blocks have it."""
        most = min(self.total - int(blocks.sum()), int(self.most[nominator] - blocks[nominator]))
        if most < 1:
            return 0.0, 0
        price = self.price.added(nominator, blocks, most)
        price = price[price <= self._left(blocks)]
        if not len(price):
            return 0.0, 0
        gain = self.found.added(nominator, blocks, len(price))
        slopes = np.where(gain > SLACK, gain / price.clip(min=SLACK), 0.0)
        return float(slopes.max()), int(slopes.argmax()) + 1

    def _left(self, blocks: Ints) -> float:
        return self.limit - self.price.total(blocks) + SLACK

    def _filled(self, blocks: Ints) -> Ints:
        for _ in range(self.total - int(blocks.sum())):
            blocks[np.where(blocks < self.most, blocks, np.iinfo(np.int64).max).argmin()] += 1
        return blocks

    def _best_move(self, blocks: Ints) -> tuple[int, int, int] | None:
        best, found, left = SLACK, None, self._left(blocks)
        for source in np.flatnonzero(blocks > 0):
            for target in range(len(blocks)):
                gains = self._gains(int(source), target, blocks, left)
                if len(gains) and gains.max() > best:
                    best, found = float(gains.max()), (int(source), target, int(gains.argmax()) + 1)
        return found

    def _gains(self, source: int, target: int, blocks: Ints, left: float) -> Floats:
        """Coverage gained by moving 1, 2, ... blocks; 0 where the move is too dear."""
        most = int(min(blocks[source], self.most[target] - blocks[target]))
        if source == target or most < 1:
            return np.zeros(0)
        dear = self.price.moved(source, target, blocks, most) > left
        return np.where(dear, 0.0, self.found.moved(source, target, blocks, most))
