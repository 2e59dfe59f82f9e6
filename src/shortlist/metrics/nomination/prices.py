"""What blocks of slots cost: slots, distinct candidates or milliseconds."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from shortlist.metrics.nomination.coverage import ABSENT, Floats, Ints


class Price(Protocol):
    """What a split costs, and what more blocks of one nominator or a move between two would add to it."""

    def total(self, blocks: Ints) -> float: ...

    def added(self, nominator: int, blocks: Ints, most: int) -> Floats:
        """Added by the next 1, 2, ..., `most` blocks of a nominator."""
        ...

    def moved(self, source: int, target: int, blocks: Ints, most: int) -> Floats:
        """Added by moving 1, 2, ..., `most` blocks from one nominator to another."""
        ...


@dataclass(frozen=True)
class Slots:
    """Every block costs 1."""

    def total(self, blocks: Ints) -> float:
        return float(blocks.sum())

    def added(self, nominator: int, blocks: Ints, most: int) -> Floats:
        return np.arange(1, most + 1, dtype=np.float64)

    def moved(self, source: int, target: int, blocks: Ints, most: int) -> Floats:
        return np.zeros(most)


@dataclass(frozen=True, eq=False)
class Milliseconds:
    """A nominator with k blocks takes once[n] + each[n] * k, and nothing without blocks."""

    once: Floats  # [N], 0 where the floor already pays for the call
    each: Floats  # [N]

    def total(self, blocks: Ints) -> float:
        return float(np.where(blocks > 0, self.once + self.each * blocks, 0.0).sum())

    def added(self, nominator: int, blocks: Ints, most: int) -> Floats:
        own = int(blocks[nominator])
        return self._of(nominator, own + np.arange(1, most + 1)) - self._of(nominator, np.array([own]))

    def moved(self, source: int, target: int, blocks: Ints, most: int) -> Floats:
        less, own = blocks[source] - np.arange(1, most + 1), np.array([blocks[source]])
        return self.added(target, blocks, most) + self._of(source, less) - self._of(source, own)

    def _of(self, nominator: int, blocks: Ints) -> Floats:
        return np.asarray(np.where(blocks > 0, self.once[nominator] + self.each[nominator] * blocks, 0.0))


@dataclass(frozen=True, eq=False)
class Covered:
    """The weight of all rows that at least one nominator returns: positives found, or distinct candidates.

    `depth` is the block of each nominator's list that holds a row. Block 0 is the floor, which every nominator has.
    """

    depth: Ints  # [P, N]
    weight: Floats  # [P]

    @classmethod
    def of(cls, ranks: Ints, weight: Floats, floor: Ints, block: int) -> "Covered":
        """Rows with the same blocks in all lists are one row."""
        beyond = ranks - floor
        depth = np.where(ranks == ABSENT, ABSENT, np.where(beyond < 0, 0, beyond // block + 1))
        distinct, at = np.unique(depth, axis=0, return_inverse=True)
        return cls(distinct, np.bincount(at.reshape(-1), weight, len(distinct)).astype(np.float64))

    def total(self, blocks: Ints) -> float:
        return float(self.weight[(self.depth <= blocks).any(axis=1)].sum())

    def added(self, nominator: int, blocks: Ints, most: int) -> Floats:
        missed = (self.depth > blocks).all(axis=1)
        further = (self.depth[missed, nominator] - blocks[nominator]).clip(max=most + 1)
        return np.bincount(further, self.weight[missed], most + 2)[1 : most + 1].cumsum()

    def moved(self, source: int, target: int, blocks: Ints, most: int) -> Floats:
        others = np.delete(np.arange(len(blocks)), [source, target])
        alone = (self.depth[:, others] > blocks[others]).all(axis=1)
        # A row is missed from the step that takes it from the source, until the one that brings it to the target.
        lost = (blocks[source] - self.depth[alone, source] + 1).clip(0, most + 1)
        back = (self.depth[alone, target] - blocks[target]).clip(0, most + 1)
        between, weight = lost < back, self.weight[alone]
        change = np.bincount(lost[between], weight[between], most + 2)
        change -= np.bincount(back[between], weight[between], most + 2)
        missed = change.cumsum()
        return np.asarray(missed[0] - missed[1 : most + 1], np.float64)
