"""The interface of every searchable set of item vectors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.errors import ConfigError, DataError


class VectorIndex(ABC):
    """Maximum inner product search over the vectors of all items.

    An index is immutable: it is built from vectors, or opened from saved tensors.
    """

    kind: ClassVar[str]
    n_items: int
    width: int

    def search(self, queries: Tensor, k: int, exclude: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Rows (int64) and inner products (float32) [B, min(k, N)] of the k best items for `queries` [B, D].

        Best first. Rows in `exclude` [B, H] (-1 = none) are never returned; other items fill their places. Where fewer
        items remain, the row is -1 and the score -inf, and so is the whole result of a query with a non-finite value.
        """
        self._check(queries, k, exclude)
        return self.find(queries, min(k, self.n_items), exclude)

    @abstractmethod
    def find(self, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        """The result of `search`, for k <= N and checked arguments."""

    @classmethod
    @abstractmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        """An index of `vectors` [N, D]; the same seed gives the same index."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The plain values that `build` needs beside the tensors."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """The tensors of the index, as stored in an artifact."""

    @classmethod
    @abstractmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The index back from `settings()` and `tensors()`, which it may use without a copy."""

    @abstractmethod
    def tuned(self, **knobs: Any) -> Self:
        """The same index with other search parameters; nothing is rebuilt."""

    def _check(self, queries: Tensor, k: int, exclude: Tensor | None) -> None:
        if k < 0:
            raise ConfigError(f"search: k must not be negative, got {k}")
        if queries.ndim != 2 or queries.shape[1] != self.width:
            raise DataError(
                f"search: expected queries [B, {self.width}], as wide as the items, got {list(queries.shape)}"
            )
        if exclude is not None and (exclude.ndim != 2 or len(exclude) != len(queries)):
            raise DataError(
                f"search: expected excluded rows [{len(queries)}, H], one line per query, got {list(exclude.shape)}"
            )


def checked_vectors(vectors: Tensor) -> Tensor:
    """Vectors [N, D] in contiguous float32, all of them finite."""
    plain = plain_vectors(vectors)
    if not bool(plain.isfinite().all()):
        at = int((~plain.isfinite().all(1)).nonzero()[0])
        raise DataError(f"index: the vector of row {at} is not all finite numbers; has the model diverged?")
    return plain


def plain_vectors(vectors: Tensor) -> Tensor:
    """Vectors [N, D] in contiguous float32."""
    if vectors.ndim != 2 or vectors.shape[1] < 1:
        raise DataError(f"index: expected vectors [N, D] with D from 1, got {list(vectors.shape)}")
    return vectors.detach().to(torch.float32).contiguous()
