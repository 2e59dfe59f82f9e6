"""Items laid out by category, so that one can be drawn by appeal without looking at all of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.simulate.world import Floats, Rows, World


@dataclass(frozen=True, eq=False)
class Shelves:
    """Items in the order of their categories; category c owns the stretch [c, c + 1) of `edges`."""

    order: Rows  # [I]
    edges: NDArray[np.float64]  # [I] where the stretch of each item ends
    oldest: Rows  # [C] the first item of each category to be born

    @classmethod
    def of(cls, world: World) -> "Shelves":
        """The shelves of a world."""
        order = np.lexsort((world.births, world.categories))
        sizes = np.bincount(world.categories)
        heads = np.cumsum(sizes) - sizes  # [C]
        whole = np.cumsum(world.appeal[order].astype(np.float64))
        before = np.concatenate([[0.0], whole])[heads]  # [C] the appeal on all shelves before
        total = np.diff(np.concatenate([before, whole[-1:]]))
        shelf = world.categories[order]
        return cls(order, shelf + (whole - before[shelf]) / total[shelf], order[heads])

    def draw(self, shares: Floats, looks: int, rng: np.random.Generator) -> Rows:
        """Items with chance share of the category x appeal within it; shares [B, C] -> [B, looks]."""
        edges = np.cumsum(shares, axis=1)[:, None, :-1]  # [B, 1, C - 1]
        shelf = (rng.random((len(shares), looks, 1), np.float32) >= edges).sum(axis=2)  # [B, looks]
        at = np.searchsorted(self.edges, shelf + rng.random(shelf.shape), side="right")
        return np.asarray(self.order[np.minimum(at, len(self.order) - 1)], np.int64)
