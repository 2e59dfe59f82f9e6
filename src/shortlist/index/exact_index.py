"""Brute-force index."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.index.exact import search
from shortlist.index.vector_index import VectorIndex, plain_vectors


class ExactIndex(VectorIndex):
    """Exact search over vectors that are not copied: of a model, in a mapped file, on a GPU."""

    kind: ClassVar[str] = "exact"

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors  # [N, D]
        self.n_items, self.width = vectors.shape

    def find(self, queries: Tensor, k: int, exclude: Tensor | None) -> tuple[Tensor, Tensor]:
        if (queries.dtype, queries.device) != (self.vectors.dtype, self.vectors.device):
            queries = queries.to(self.vectors)
        return search(self.vectors, queries, k, exclude=exclude)

    @classmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        _refuse_settings(settings)
        return cls(plain_vectors(vectors))

    def settings(self) -> dict[str, Any]:
        return {}

    def tensors(self) -> dict[str, Tensor]:
        return {"vectors": self.vectors}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(tensors["vectors"])

    def tuned(self, **knobs: Any) -> Self:
        _refuse_settings(knobs)
        return self


def _refuse_settings(settings: Mapping[str, Any]) -> None:
    if settings:
        raise ConfigError(
            f'index "exact" has no settings, got {", ".join(settings)}; remove them or choose another kind'
        )
