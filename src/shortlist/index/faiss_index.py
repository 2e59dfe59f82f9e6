"""Indexes of faiss behind our interface; this file is imported only when one is asked for.

Every search and every making runs on one thread, whatever OpenMP would like: answers do not depend on the machine, and
requests that are served side by side do not fight for cores.
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
from shortlist.index.params import FEW, Choices, HnswChoices, IvfChoices, IvfPqChoices, ResidualChoices
from shortlist.index.vector_index import checked_vectors

SAMPLE = 64  # vectors for each list or code that are looked at when these are learned, at most
ROUNDS = 10  # of k-means
BYTES = "faiss"  # the name of the tensor an index travels in


@dataclass(frozen=True, eq=False)
class FaissIndex(ApproximateIndex):
    """An index of faiss, and how it is asked."""

    choices: Any
    inner: Any  # the index itself
    held: Tensor | None = field(default=None, repr=False)  # the bytes it reads from, where it was opened

    Choices: ClassVar[type[Choices]] = Choices

    @classmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        items = checked_vectors(vectors).cpu().numpy()
        choices = cls.Choices.of(cls.kind, settings).fitted(*items.shape)
        faiss.omp_set_num_threads(1)
        if len(items) < FEW:
            inner = faiss.IndexFlatIP(items.shape[1])
        else:
            inner = cls.empty(choices, items.shape[1], seed)
            inner.train(items)
        inner.add(items)
        return cls(len(items), items.shape[1], choices, inner)

    @classmethod
    @abstractmethod
    def empty(cls, choices: Any, width: int, seed: int) -> Any:
        """An index of faiss that nothing was added to."""

    @abstractmethod
    def parameters(self, k: int, effort: int) -> Any:
        """How faiss is asked for k items, None for as it does by itself."""

    def ask(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        faiss.omp_set_num_threads(1)
        asked = self.whole if effort >= self.most else self.inner
        wanted = None if isinstance(asked, faiss.IndexFlat) else self.parameters(k, effort)
        scores, rows = asked.search(queries, k, params=wanted)
        return rows, scores

    @property
    def whole(self) -> Any:
        """What is asked when every item must be looked at."""
        return self.inner

    def settings(self) -> dict[str, Any]:
        return {"n_items": self.n_items, "width": self.width, **self.choices.given()}

    def tensors(self) -> dict[str, Tensor]:
        return {BYTES: torch.from_numpy(faiss.serialize_index(self.inner))}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        choices = dict(settings)
        n_items, width = choices.pop("n_items"), choices.pop("width")
        held = tensors[BYTES].contiguous()
        inner = _opened(held)
        if (inner.ntotal, inner.d) != (n_items, width):
            raise ArtifactError(
                f"index: expected {n_items} vectors of width {width}, its bytes hold {inner.ntotal} of {inner.d}; "
                "make the artifact again"
            )
        return cls(n_items, width, cls.Choices.of(cls.kind, choices), inner, held)

    def tuned(self, **knobs: Any) -> Self:
        choices = self.Choices.of(self.kind, {**self.choices.given(), **knobs})
        return replace(self, choices=choices.fitted(self.n_items, self.width))


class FlatIndex(FaissIndex):
    """Every item, as faiss looks at it: what `exact` is held against."""

    kind = "flat"
    most = 1

    @classmethod
    def empty(cls, choices: Any, width: int, seed: int) -> Any:
        return faiss.IndexFlatIP(width)

    def parameters(self, k: int, effort: int) -> Any:
        return None


class HnswIndex(FaissIndex):
    """A graph that is walked towards larger products.

    Malkov and Yashunin, 2016; by inner product: Morozov and Babenko, 2018.
    """

    kind = "hnsw"
    Choices = HnswChoices

    @classmethod
    def empty(cls, choices: Any, width: int, seed: int) -> Any:
        inner = faiss.IndexHNSWFlat(width, choices.m, faiss.METRIC_INNER_PRODUCT)
        inner.hnsw.efConstruction = choices.ef_construction
        inner.hnsw.rng = faiss.RandomGenerator(seed)
        return inner

    @property
    def most(self) -> int:
        return max(1, -(-self.n_items // int(self.choices.ef)))

    @property
    def whole(self) -> Any:
        """A walk may never come to an item nobody points at: the vectors themselves are looked at."""
        graph = isinstance(self.inner, faiss.IndexHNSW)
        return faiss.downcast_index(self.inner.storage) if graph else self.inner

    def parameters(self, k: int, effort: int) -> Any:
        return faiss.SearchParametersHNSW(efSearch=max(self.choices.ef * effort, k))


class IvfIndex(FaissIndex):
    """Lists of items around centres learned by k-means; those of the nearest centres are read whole."""

    kind = "ivf"
    Choices = IvfChoices

    @classmethod
    def empty(cls, choices: Any, width: int, seed: int) -> Any:
        inner = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, choices.nlist, faiss.METRIC_INNER_PRODUCT)
        _calm(inner.cp, seed)
        return inner

    @property
    def most(self) -> int:
        return max(1, -(-int(self.choices.nlist) // int(self.choices.nprobe)))

    def parameters(self, k: int, effort: int) -> Any:
        return faiss.SearchParametersIVF(nprobe=min(self.choices.nprobe * effort, self.choices.nlist))


class IvfPqIndex(IvfIndex):
    """The same lists, vectors in them written as codes (Jegou and others, 2011)."""

    kind = "ivf-pq"
    Choices = IvfPqChoices

    @classmethod
    def empty(cls, choices: Any, width: int, seed: int) -> Any:
        inner = faiss.IndexIVFPQ(
            faiss.IndexFlatIP(width),
            width,
            choices.nlist,
            choices.m,
            choices.bits,
            faiss.METRIC_INNER_PRODUCT,
        )
        _calm(inner.cp, seed)
        _calm(inner.pq.cp, seed)
        return _refined(inner, choices)

    def parameters(self, k: int, effort: int) -> Any:
        return _refining(super().parameters(k, effort), self.choices, effort)


class ResidualIndex(IvfIndex):
    """Codes of what the codes before them left over (Chen and others, 2010), in lists or in one."""

    kind = "residual"
    Choices = ResidualChoices

    @classmethod
    def empty(cls, choices: Any, width: int, seed: int) -> Any:
        # By product the length of what was coded plays no part, so it is not kept.
        told = (faiss.METRIC_INNER_PRODUCT, faiss.AdditiveQuantizer.ST_LUT_nonorm)
        if choices.nlist == 1:
            inner = faiss.IndexResidualQuantizer(width, choices.m, choices.bits, *told)
        else:
            inner = faiss.IndexIVFResidualQuantizer(
                faiss.IndexFlatIP(width), width, choices.nlist, choices.m, choices.bits, *told
            )
            _calm(inner.cp, seed)
        _calm(inner.rq.cp, seed)
        return _refined(inner, choices)

    def parameters(self, k: int, effort: int) -> Any:
        lists = None if self.choices.nlist == 1 else super().parameters(k, effort)
        return _refining(lists, self.choices, effort)


KINDS: Mapping[str, type[FaissIndex]] = {
    one.kind: one for one in (FlatIndex, HnswIndex, IvfIndex, IvfPqIndex, ResidualIndex)
}


def _calm(clustering: Any, seed: int) -> None:
    """How k-means is done: by a seed, shortly, and without a word on how many vectors it would like."""
    clustering.seed, clustering.niter = seed, ROUNDS
    clustering.min_points_per_centroid, clustering.max_points_per_centroid = 1, SAMPLE


def _refined(inner: Any, choices: Any) -> Any:
    """The same index, the vectors beside it where the best are to be weighed exactly."""
    return faiss.IndexRefineFlat(inner) if choices.refine else inner


def _refining(parameters: Any, choices: Any, effort: int) -> Any:
    if not choices.refine:
        return parameters
    return faiss.IndexRefineSearchParameters(k_factor=choices.refine * effort, base_index_params=parameters)


def _opened(held: Tensor) -> Any:
    """The index that some bytes are; its large arrays are those bytes."""
    blob: np.ndarray[Any, Any] = held.numpy()
    try:
        return faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(blob), blob.size))
    except RuntimeError as error:
        said = " ".join(str(error).split())[-200:]
        raise ArtifactError(
            f"index: its bytes are no index of faiss ({said}); make the artifact again"
        ) from error
