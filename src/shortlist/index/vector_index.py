"""What every searchable set of item vectors is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError


class VectorIndex(ABC):
    """Vectors of all items, searched by inner product; kinds differ in what they do to be fast.

    An index does not change: it is made from vectors, or opened from what an earlier one had saved.
    """

    kind: ClassVar[str]
    n_items: int
    width: int

    def search(self, queries: Tensor, k: int, exclude: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The rows and products of the k best items for `queries` [B, D], best first: int64, float32, [B, min(k, N)].

        Rows in `exclude` [B, H], -1 = none, are never found, and others fill their places. Where nothing is left to be
        found stand row -1 and -inf, as everywhere for a query that is not all finite numbers.
        """
        self._check(queries, k, exclude)
        return self.find(queries, min(k, self.n_items), exclude)

    @abstractmethod
    def find(self, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        """What `search` gives, for k <= N."""

    @classmethod
    @abstractmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        """An index of `vectors` [N, D]; the same seed gives the same index."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What `build` needs beside the tensors, in plain values."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All that was made, as it stands in an artifact."""

    @classmethod
    @abstractmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The index back from `settings()` and `tensors()`, which it may read where they lie."""

    @abstractmethod
    def tuned(self, **knobs: Any) -> Self:
        """The same index, asked with other knobs; nothing is made anew."""

    def _check(self, queries: Tensor, k: int, exclude: Tensor | None) -> None:
        if k < 0:
            raise ConfigError(f"search: k must not be negative, got {k}")
        if queries.ndim != 2 or queries.shape[1] != self.width:
            raise DataError(
                f"search: expected queries [B, {self.width}], as wide as the items, got {list(queries.shape)}"
            )
        if exclude is not None and (exclude.ndim != 2 or len(exclude) != len(queries)):
            raise DataError(
                f"search: expected rows to exclude [{len(queries)}, H], a line per query, got {list(exclude.shape)}"
            )


def checked_vectors(vectors: Tensor) -> Tensor:
    """Vectors [N, D] as an index that learns from them takes them: all of them numbers."""
    plain = plain_vectors(vectors)
    if not bool(plain.isfinite().all()):
        at = int((~plain.isfinite().all(1)).nonzero()[0])
        raise DataError(f"index: the vector of row {at} is not all finite numbers; has the model diverged?")
    return plain


def plain_vectors(vectors: Tensor) -> Tensor:
    """Vectors [N, D] in float32, side by side."""
    if vectors.ndim != 2 or vectors.shape[1] < 1:
        raise DataError(f"index: expected vectors [N, D] with D from 1, got {list(vectors.shape)}")
    return vectors.detach().to(torch.float32).contiguous()
