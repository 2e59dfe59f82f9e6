"""The trainer of co-visit: cosine similarities of items over the histories of users, the best few for each item."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data import Interactions
from shortlist.nominate import CoVisit
from shortlist.progress import tracked
from shortlist.settings import setting
from shortlist.train.context import TrainContext

CELLS = 1 << 23  # similarities in memory at a time
USUAL_WEIGHT = (
    np.log2(2.0 + 20.0) ** -2
)  # what one shared user with 20 events adds to a pair: the unit of `shrink`


@dataclass(frozen=True)
class CoVisitTrainer:
    """Cosine of item columns of event weights, where a user weighs 1 / log2(2 + items)."""

    uses_weights: ClassVar[bool | None] = True
    counts_only: ClassVar[bool] = True

    neighbours: int = setting(100, "Largest number of neighbours of an item.", least=1, most=100_000)
    shrink: float = setting(
        10.0, "Users added to the denominator of every similarity; damps rare pairs.", least=0, most=1e9
    )
    last: int = setting(200, "Number of last events of every user that are counted.", least=1, most=1e9)

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> CoVisit:
        matrix = _weighted(context.events, self.last)  # [U, N]
        norms = np.sqrt(np.asarray(matrix.power(2).sum(0))).ravel()
        width = max(min(self.neighbours, matrix.shape[1] - 1), 1)
        blocks = [
            nearest_items(matrix, norms, block, width, self.shrink)
            for block in tracked(item_blocks(matrix, CELLS), "co-visit", context.progress)
        ]
        neighbours, similarities = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return CoVisit(torch.from_numpy(neighbours), torch.from_numpy(similarities), **settings)


def _weighted(events: Interactions, last: int) -> sparse.csc_matrix:
    """Users x items with the last events of every user, weighted down for users with many events."""
    place = np.arange(len(events)) - events.starts[events.users]
    matrix = events.where(events.lengths[events.users] - place <= last).weighted_matrix()
    counts = np.diff(matrix.indptr).astype(np.float32)
    return (sparse.diags_array(1.0 / np.log2(2.0 + counts)).astype(np.float32) @ matrix).tocsc()


def item_blocks(matrix: sparse.csc_matrix, cells: int) -> list[slice]:
    """Blocks of items of which each has at most `cells` similarities above 0 with other items, or is one item.

    An item has at most as many as its users have items: memory grows with events, not with pairs of items.
    """
    per_user = np.bincount(matrix.indices, minlength=matrix.shape[0])
    most = np.minimum(matrix.astype(bool).astype(np.int64).T @ per_user, matrix.shape[1])  # [N]
    room = max(cells - int(most.max(initial=0)), 1)
    number = (np.cumsum(most) - most) // room  # [N] of its block, ascending
    edges = np.flatnonzero(np.diff(number)) + 1
    return [slice(start, stop) for start, stop in pairwise([0, *edges.tolist(), matrix.shape[1]])]


def nearest_items(
    matrix: sparse.csc_matrix, norms: NDArray[np.float32], block: slice, width: int, shrink: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `width` most similar items of each item of a block, and their similarities; -1 and 0 if there are fewer.

    Largest first, equal ones by row. Only items with a common user are looked at.
    """
    shared = (matrix[:, block].T @ matrix).tocoo()  # [n, N]
    own, other = shared.row.astype(np.int64) + block.start, shared.col.astype(np.int64)
    values = shared.data / np.maximum(norms[own] * norms[other] + shrink * USUAL_WEIGHT, 1e-12)
    kept = np.flatnonzero((own != other) & (values > 0))
    order = kept[np.lexsort((other[kept], -values[kept], own[kept]))]
    rows = own[order] - block.start
    place = np.arange(len(order)) - np.searchsorted(rows, rows)  # among the neighbours of the same item
    first = place < width
    shape = (block.stop - block.start, width)
    neighbours, similarities = np.full(shape, -1, np.int64), np.zeros(shape, np.float32)
    neighbours[rows[first], place[first]] = other[order[first]]
    similarities[rows[first], place[first]] = values[order[first]]
    return neighbours, similarities
