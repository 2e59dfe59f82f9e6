"""What indexes that look at some of the items have in common: they are asked for more, and asked again."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.index.postfilter import Floats, Wholes, prepared, sift
from shortlist.index.vector_index import VectorIndex

HARDER = 4  # times the effort when too little was found


@dataclass(frozen=True, eq=False)
class ApproximateIndex(VectorIndex):
    """Leaves out what is excluded afterwards, and so asks for as many more; where that is not enough, looks harder.

    How many more, and how hard, follows from a query and what it excludes: it finds the same alone and in any batch.
    """

    n_items: int
    width: int

    @abstractmethod
    def ask(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        """Rows, int64, -1 = none, and products, float32, of at most k items for `queries`, arrays [B, k].

        Effort 1 is the usual one.
        """

    @property
    @abstractmethod
    def most(self) -> int:
        """The effort at which every item is looked at."""

    def find(self, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        asked = queries.detach().cpu().float().contiguous().numpy()
        met = np.empty((len(asked), 0), np.int64) if exclude is None else _rows(exclude)
        rows, scores = (torch.from_numpy(one) for one in self._found(asked, k, met))
        return (rows, scores) if queries.is_cpu else (rows.to(queries.device), scores.to(queries.device))

    def _found(self, queries: Floats, k: int, exclude: Wholes) -> tuple[Wholes, Floats]:
        """The k best that are not excluded; who has found too few looks harder."""
        met, sizes, wanted = prepared(queries, exclude, k, self.n_items)
        best = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
        for size in sorted(set(sizes.tolist()) - {0}):
            (at,), effort = (sizes == size).nonzero(), 1
            at = sift(self.ask(queries[at], size, effort), at, met, wanted, best)
            while effort < self.most and len(at):
                effort = min(effort * HARDER, self.most)
                at = sift(self.ask(queries[at], size, effort), at, met, wanted, best)
        return best


def _rows(exclude: Tensor) -> Wholes:
    rows: Wholes = exclude.long().contiguous().numpy(force=True)
    return rows
