"""Blocks of slots for nominators, greedily by what they add, then exchanged while an exchange adds more."""

from dataclasses import dataclass

import numpy as np

from shortlist.metrics.nomination.coverage import Floats, Ints

NO_GAIN = 1e-12


@dataclass(frozen=True, eq=False)
class Prices:
    """Milliseconds of a nominator with k blocks: once[n] + each[n] * k, 0 without slots; at most `limit` together."""

    once: Floats  # [N], 0 where the floor already pays for the call
    each: Floats  # [N]
    limit: float

    def of(self, nominator: int, blocks: Ints) -> Floats:
        """Milliseconds of one nominator with these numbers of blocks."""
        return np.asarray(np.where(blocks > 0, self.once[nominator] + self.each[nominator] * blocks, 0.0))

    def spent(self, blocks: Ints) -> float:
        """Milliseconds of all nominators."""
        return float(np.where(blocks > 0, self.once + self.each * blocks, 0.0).sum())


@dataclass(frozen=True, eq=False)
class Blocks:
    """Which block of each nominator holds each positive, and what a positive counts.

    Block 0 is the floor, which every nominator has; a depth above `most` is out of reach.
    """

    depth: Ints  # [P, N]
    weight: Floats  # [P]
    most: Ints  # [N]
    prices: Prices | None = None

    def greedy(self, blocks: Ints, total: int) -> Ints:
        """Add blocks up to `total`, each time the start of a list with the best gain per slot or millisecond.

        That start is the first piece of the least concave majorant of the gain, so a list whose hits come late is not
        left at 0. Blocks that add nothing go to the nominators with the fewest.
        """
        blocks = blocks.copy()
        while (left := total - int(blocks.sum())) > 0:
            found = [self._steepest(nominator, blocks, left) for nominator in range(len(blocks))]
            gain, step = max(found, key=lambda one: one[0])
            nominator = [one[0] for one in found].index(gain)
            if gain <= NO_GAIN:
                return blocks if self.prices else self._filled(blocks, left)
            blocks[nominator] += step
        return blocks

    def exchanged(self, blocks: Ints) -> Ints:
        """Move blocks from one nominator to another, the best move first, until no move adds coverage."""
        while (found := self._best_move(blocks)) is not None:
            source, target, step = found
            blocks = blocks.copy()
            blocks[source] -= step
            blocks[target] += step
        return blocks

    def _steepest(self, nominator: int, blocks: Ints, left: int) -> tuple[float, int]:
        """The best mean gain of the next blocks of a nominator, and how many blocks have it."""
        own = int(blocks[nominator])
        steps = np.arange(1, min(left, int(self.most[nominator]) - own) + 1)
        price = steps.astype(np.float64)
        if self.prices is not None:
            price = self.prices.of(nominator, own + steps) - self.prices.of(nominator, np.array(own))
            price = price[price <= self.prices.limit - self.prices.spent(blocks) + NO_GAIN]
        if not len(price):
            return 0.0, 0
        missed = (self.depth > blocks).all(1)
        further = (self.depth[missed, nominator] - own).clip(max=len(price) + 1)
        gains = np.bincount(further, weights=self.weight[missed], minlength=len(price) + 2)
        mean = gains[1 : len(price) + 1].cumsum() / price.clip(min=NO_GAIN)
        return float(mean.max()), int(mean.argmax()) + 1

    def _filled(self, blocks: Ints, left: int) -> Ints:
        for _ in range(left):
            room = blocks < self.most
            blocks[np.where(room, blocks, np.iinfo(np.int64).max).argmin()] += 1
        return blocks

    def _best_move(self, blocks: Ints) -> tuple[int, int, int] | None:
        best, found = NO_GAIN, None
        for source in np.flatnonzero(blocks > 0):
            for target in range(len(blocks)):
                if source != target:
                    gains = self._moved(blocks, int(source), target)
                    if len(gains) and gains.max() > best:
                        best, found = float(gains.max()), (int(source), target, int(gains.argmax()) + 1)
        return found

    def _moved(self, blocks: Ints, source: int, target: int) -> Floats:
        """Coverage gained by moving 1, 2, ... blocks."""
        most = int(min(blocks[source], self.most[target] - blocks[target]))
        if most < 1:
            return np.zeros(0)
        others = np.delete(np.arange(len(blocks)), [source, target])
        alone = (self.depth[:, others] > blocks[others]).all(1)
        # A positive is missed from the step that takes it from the source, until the one that brings it to the target.
        lost = (blocks[source] - self.depth[alone, source] + 1).clip(0, most + 1)
        back = (self.depth[alone, target] - blocks[target]).clip(0, most + 1)
        between, weight = lost < back, self.weight[alone]
        change = np.bincount(lost[between], weight[between], most + 2)
        change -= np.bincount(back[between], weight[between], most + 2)
        missed = change.cumsum()
        gains: Floats = missed[0] - missed[1 : most + 1]
        return (
            gains
            if self.prices is None
            else np.where(self._affordable(blocks, source, target, most), gains, 0.0)
        )

    def _affordable(self, blocks: Ints, source: int, target: int, most: int) -> Floats:
        assert self.prices is not None
        steps, prices = np.arange(1, most + 1), self.prices
        change = prices.of(source, blocks[source] - steps) + prices.of(target, blocks[target] + steps)
        change -= prices.of(source, blocks[source]) + prices.of(target, blocks[target])
        return np.asarray(prices.spent(blocks) + change <= prices.limit + NO_GAIN)
