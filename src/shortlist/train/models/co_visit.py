"""The trainer of co-visit: cosine similarities of items over the histories of users, the best few for each item."""

from collections.abc import Mapping
from dataclasses import dataclass
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

CELLS = 1 << 25  # similarities in memory at a time
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
        block = max(min(CELLS // max(matrix.shape[1], 1), 1024), 1)
        blocks = [
            nearest_items(matrix, norms, slice(start, start + block), width, self.shrink)
            for start in tracked(range(0, matrix.shape[1], block), "co-visit", context.progress)
        ]
        neighbours, similarities = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return CoVisit(torch.from_numpy(neighbours), torch.from_numpy(similarities), **settings)


def _weighted(events: Interactions, last: int) -> sparse.csc_matrix:
    """Users x items with the last events of every user, weighted down for users with many events."""
    place = np.arange(len(events)) - events.starts[events.users]
    matrix = events.where(events.lengths[events.users] - place <= last).weighted_matrix()
    counts = np.diff(matrix.indptr).astype(np.float32)
    return (sparse.diags_array(1.0 / np.log2(2.0 + counts)).astype(np.float32) @ matrix).tocsc()


def nearest_items(
    matrix: sparse.csc_matrix, norms: NDArray[np.float32], block: slice, width: int, shrink: float
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The `width` most similar items of each item of a block, and their similarities; -1 and 0 if there are fewer."""
    shared = (matrix[:, block].T @ matrix).toarray()  # [n, N]
    shared /= np.maximum(norms[block, None] * norms[None, :] + shrink * USUAL_WEIGHT, 1e-12)
    own = np.arange(block.start, block.start + len(shared))
    shared[np.arange(len(shared)), own] = 0.0
    rows = _largest(shared, width)
    similarities = np.take_along_axis(shared, rows, axis=1).astype(np.float32)
    return np.where(similarities > 0, rows, -1).astype(np.int64), similarities


def _largest(values: NDArray[np.float32], width: int) -> NDArray[np.int64]:
    """The columns of the `width` largest values of each row, largest first, equal ones by column."""
    if values.shape[1] <= 4 * width:
        return np.argsort(-values, axis=1, kind="stable")[:, :width]
    some = np.sort(np.argpartition(-values, width, axis=1)[:, :width], axis=1)
    order = np.argsort(-np.take_along_axis(values, some, axis=1), axis=1, kind="stable")
    return np.take_along_axis(some, order, axis=1)
