"""FAISS indexes behind the `VectorIndex` interface; imported only when one is requested.

Building and searching use one thread: results do not depend on the machine, and concurrent requests do not compete for
cores.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import faiss
import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ArtifactError
from shortlist.index.approximate import ApproximateIndex
from shortlist.index.params import (
    MIN_ITEMS,
    HnswParams,
    IndexParams,
    IvfParams,
    IvfPqParams,
    ResidualParams,
)
from shortlist.index.vector_index import checked_vectors

MAX_POINTS_PER_CENTROID = 64  # training vectors per centroid
KMEANS_ITERATIONS = 10
BYTES = "faiss"  # name of the tensor that holds the serialized index


@dataclass(frozen=True, eq=False)
class FaissIndex(ApproximateIndex):
    """A FAISS index with its parameters."""

    params: Any
    inner: Any  # the FAISS index
    storage: Tensor | None = field(default=None, repr=False)  # bytes that an opened index reads from

    Params: ClassVar[type[IndexParams]] = IndexParams

    @classmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        items = checked_vectors(vectors).cpu().numpy()
        params = cls.Params.of(settings).resolved(*items.shape)
        faiss.omp_set_num_threads(1)
        if len(items) < MIN_ITEMS:
            inner = faiss.IndexFlatIP(items.shape[1])
        else:
            inner = cls.empty(params, items.shape[1], seed)
            inner.train(items)
        inner.add(items)
        return cls(len(items), items.shape[1], params, inner)

    @classmethod
    @abstractmethod
    def empty(cls, params: Any, width: int, seed: int) -> Any:
        """An untrained, empty FAISS index."""

    @abstractmethod
    def search_parameters(self, k: int, effort: int) -> Any:
        """FAISS search parameters for k items, None for its defaults."""

    def raw_search(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        faiss.omp_set_num_threads(1)
        searched = self.exhaustive if effort >= self.max_effort else self.inner
        parameters = None if isinstance(searched, faiss.IndexFlat) else self.search_parameters(k, effort)
        scores, rows = searched.search(queries, k, params=parameters)
        return rows, scores

    @property
    def exhaustive(self) -> Any:
        """The FAISS index for an exhaustive search."""
        return self.inner

    def settings(self) -> dict[str, Any]:
        return {"n_items": self.n_items, "width": self.width, **self.params.as_dict()}

    def tensors(self) -> dict[str, Tensor]:
        return {BYTES: torch.from_numpy(faiss.serialize_index(self.inner))}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        params = dict(settings)
        n_items, width = params.pop("n_items"), params.pop("width")
        storage = tensors[BYTES].contiguous()
        inner = _deserialized(storage)
        if (inner.ntotal, inner.d) != (n_items, width):
            raise ArtifactError(
                f"index: expected {n_items} vectors of width {width}, its bytes hold {inner.ntotal} of {inner.d}; "
                "make the artifact again"
            )
        return cls(n_items, width, cls.Params.of(params), inner, storage)

    def tuned(self, **knobs: Any) -> Self:
        params = self.Params.of({**self.params.as_dict(), **knobs})
        return replace(self, params=params.resolved(self.n_items, self.width))


class FlatIndex(FaissIndex):
    """Brute force by FAISS: the reference for `exact`."""

    kind = "flat"
    max_effort = 1

    @classmethod
    def empty(cls, params: Any, width: int, seed: int) -> Any:
        return faiss.IndexFlatIP(width)

    def search_parameters(self, k: int, effort: int) -> Any:
        return None


class HnswIndex(FaissIndex):
    """A navigable small-world graph by inner product.

    Malkov and Yashunin, 2016; by inner product: Morozov and Babenko, 2018.
    """

    kind = "hnsw"
    Params = HnswParams

    @classmethod
    def empty(cls, params: Any, width: int, seed: int) -> Any:
        inner = faiss.IndexHNSWFlat(width, params.m, faiss.METRIC_INNER_PRODUCT)
        inner.hnsw.efConstruction = params.ef_construction
        inner.hnsw.rng = faiss.RandomGenerator(seed)
        return inner

    @property
    def max_effort(self) -> int:
        return max(1, -(-self.n_items // int(self.params.ef)))

    @property
    def exhaustive(self) -> Any:
        """The stored vectors: the graph does not reach an item without incoming edges."""
        graph = isinstance(self.inner, faiss.IndexHNSW)
        return faiss.downcast_index(self.inner.storage) if graph else self.inner

    def search_parameters(self, k: int, effort: int) -> Any:
        return faiss.SearchParametersHNSW(efSearch=max(self.params.ef * effort, k))


class IvfIndex(FaissIndex):
    """Inverted lists around k-means centroids; the lists of the nearest centroids are scanned."""

    kind = "ivf"
    Params = IvfParams

    @classmethod
    def empty(cls, params: Any, width: int, seed: int) -> Any:
        inner = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, params.nlist, faiss.METRIC_INNER_PRODUCT)
        _configure_kmeans(inner.cp, seed)
        return inner

    @property
    def max_effort(self) -> int:
        return max(1, -(-int(self.params.nlist) // int(self.params.nprobe)))

    def search_parameters(self, k: int, effort: int) -> Any:
        return faiss.SearchParametersIVF(nprobe=min(self.params.nprobe * effort, self.params.nlist))


class IvfPqIndex(IvfIndex):
    """Inverted lists of product-quantized vectors (Jegou and others, 2011)."""

    kind = "ivf-pq"
    Params = IvfPqParams

    @classmethod
    def empty(cls, params: Any, width: int, seed: int) -> Any:
        inner = faiss.IndexIVFPQ(
            faiss.IndexFlatIP(width),
            width,
            params.nlist,
            params.m,
            params.bits,
            faiss.METRIC_INNER_PRODUCT,
        )
        _configure_kmeans(inner.cp, seed)
        _configure_kmeans(inner.pq.cp, seed)
        return _with_refinement(inner, params)

    def search_parameters(self, k: int, effort: int) -> Any:
        return _refinement_parameters(super().search_parameters(k, effort), self.params, effort)


class ResidualIndex(IvfIndex):
    """Residual-quantized vectors (Chen and others, 2010), in inverted lists or in a single one."""

    kind = "residual"
    Params = ResidualParams

    @classmethod
    def empty(cls, params: Any, width: int, seed: int) -> Any:
        # The inner product does not need the norm of the coded vector, so it is not stored.
        metric = (faiss.METRIC_INNER_PRODUCT, faiss.AdditiveQuantizer.ST_LUT_nonorm)
        if params.nlist == 1:
            inner = faiss.IndexResidualQuantizer(width, params.m, params.bits, *metric)
        else:
            inner = faiss.IndexIVFResidualQuantizer(
                faiss.IndexFlatIP(width), width, params.nlist, params.m, params.bits, *metric
            )
            _configure_kmeans(inner.cp, seed)
        _configure_kmeans(inner.rq.cp, seed)
        return _with_refinement(inner, params)

    def search_parameters(self, k: int, effort: int) -> Any:
        lists = None if self.params.nlist == 1 else super().search_parameters(k, effort)
        return _refinement_parameters(lists, self.params, effort)


KINDS: Mapping[str, type[FaissIndex]] = {
    index.kind: index for index in (FlatIndex, HnswIndex, IvfIndex, IvfPqIndex, ResidualIndex)
}


def _configure_kmeans(clustering: Any, seed: int) -> None:
    """Set the seed and the number of iterations, and silence warnings about few training points."""
    clustering.seed, clustering.niter = seed, KMEANS_ITERATIONS
    clustering.min_points_per_centroid, clustering.max_points_per_centroid = 1, MAX_POINTS_PER_CENTROID


def _with_refinement(inner: Any, params: Any) -> Any:
    """The index with the exact vectors stored beside it where the best results are rescored."""
    return faiss.IndexRefineFlat(inner) if params.refine else inner


def _refinement_parameters(parameters: Any, params: Any, effort: int) -> Any:
    if not params.refine:
        return parameters
    return faiss.IndexRefineSearchParameters(k_factor=params.refine * effort, base_index_params=parameters)


def _deserialized(storage: Tensor) -> Any:
    """The FAISS index in these bytes; its large arrays are views of them."""
    blob: np.ndarray[Any, Any] = storage.numpy()
    try:
        return faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(blob), blob.size))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-200:]
        raise ArtifactError(
            f"index: its bytes are not a FAISS index ({reason}); make the artifact again"
        ) from error
