"""Which items are met together: cosines of users' histories, the best few per item."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data import Interactions
from shortlist.nominate import CoVisit
from shortlist.progress import tracked
from shortlist.train.context import TrainContext

CELLS = 1 << 25  # likenesses in memory at a time
USUAL = np.log2(2.0 + 20.0) ** -2  # what one shared user of 20 events adds to a pair, the unit of `shrink`


@dataclass(frozen=True)
class CoVisitTrainer:
    """Cosine of item columns, `shrink` added to the norms so that rare pairs do not shine by accident.

    Users count for less the more they meet: their weight is 1 / log2(2 + events), and only the last `last` count.
    """

    neighbours: int = 100
    shrink: float = 10.0
    last: int = 200

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> CoVisit:
        matrix = _weighted(context.events, self.last)  # [U, N]
        norms = np.sqrt(np.asarray(matrix.power(2).sum(0))).ravel()
        width = max(min(self.neighbours, matrix.shape[1] - 1), 1)
        block = max(min(CELLS // max(matrix.shape[1], 1), 1024), 1)
        blocks = range(0, matrix.shape[1], block)
        found = [
            nearest_items(matrix, norms, slice(start, start + block), width, self.shrink)
            for start in tracked(blocks, "co-visits", context.progress)
        ]
        rows, likeness = (np.concatenate(part) for part in zip(*found, strict=True))
        return CoVisit(torch.from_numpy(rows), torch.from_numpy(likeness), **settings)


def _weighted(events: Interactions, last: int) -> sparse.csc_matrix:
    """Users x items with each user's last events, fainter for those who meet much."""
    place = np.arange(len(events)) - events.starts[events.users]
    matrix = events.where(events.lengths[events.users] - place <= last).matrix()
    met = np.asarray(matrix.sum(1)).ravel()
    return (sparse.diags_array(1.0 / np.log2(2.0 + met)).astype(np.float32) @ matrix).tocsc()


def nearest_items(
    matrix: sparse.csc_matrix, norms: NDArray[np.float32], block: slice, width: int, shrink: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `width` items most like each item of a block, and how like they are; -1 and 0 where there are fewer."""
    shared = (matrix[:, block].T @ matrix).toarray()  # [n, N]
    shared /= np.maximum(norms[block, None] * norms[None, :] + shrink * USUAL, 1e-12)
    own = np.arange(block.start, block.start + len(shared))
    shared[np.arange(len(shared)), own] = 0.0
    rows = _best(shared, width)
    likeness = np.take_along_axis(shared, rows, axis=1).astype(np.float32)
    return np.where(likeness > 0, rows, -1).astype(np.int64), likeness


def _best(values: NDArray[np.float32], width: int) -> NDArray[np.int64]:
    """Where the `width` largest of each row stand, the largest first, equal ones by place."""
    if values.shape[1] <= 4 * width:
        return np.argsort(-values, axis=1, kind="stable")[:, :width]
    some = np.sort(np.argpartition(-values, width, axis=1)[:, :width], axis=1)
    order = np.argsort(-np.take_along_axis(values, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)
