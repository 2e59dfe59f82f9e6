"""Base class of approximate indexes: over-fetch for excluded items, retry with more effort when too few remain."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.index.postfilter import Floats, Integers, fetch_sizes, postfilter
from shortlist.index.vector_index import VectorIndex

EFFORT_FACTOR = 4  # effort grows by this factor when too few items were found


@dataclass(frozen=True, eq=False)
class ApproximateIndex(VectorIndex):
    """Post-filters excluded rows, so it fetches more than k and searches again where fewer than k remain.

    How many are fetched, and with what effort, depends only on a query and its own excluded rows: a query gets the same
    answer alone and in any batch.
    """

    n_items: int
    width: int

    @abstractmethod
    def raw_search(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        """Rows (int64, -1 = none) and inner products (float32) of at most k items per query, arrays [B, k].

        Effort 1 is the configured one.
        """

    @property
    @abstractmethod
    def max_effort(self) -> int:
        """The effort at which the search is exhaustive."""

    def find(self, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        vectors = queries.detach().cpu().float().contiguous().numpy()
        excluded = np.empty((len(vectors), 0), np.int64) if exclude is None else _rows(exclude)
        rows, scores = (torch.from_numpy(part) for part in self._search(vectors, k, excluded))
        return (rows, scores) if queries.is_cpu else (rows.to(queries.device), scores.to(queries.device))

    def _search(self, queries: Floats, k: int, exclude: Integers) -> tuple[Integers, Floats]:
        """The k best rows that are not excluded; queries with too few results are searched again."""
        excluded, sizes, available = fetch_sizes(queries, exclude, k, self.n_items)
        best = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32)
        for size in sorted(set(sizes.tolist()) - {0}):
            (at,), effort = (sizes == size).nonzero(), 1
            at = postfilter(self.raw_search(queries[at], size, effort), at, excluded, available, best)
            while effort < self.max_effort and len(at):
                effort = min(effort * EFFORT_FACTOR, self.max_effort)
                at = postfilter(self.raw_search(queries[at], size, effort), at, excluded, available, best)
        return best


def _rows(exclude: Tensor) -> Integers:
    rows: Integers = exclude.long().contiguous().numpy(force=True)
    return rows
