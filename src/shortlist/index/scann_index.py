"""ScaNN behind the `VectorIndex` interface; imported only when it is requested.

ScaNN quantizes vectors so that large inner products keep the smallest error (Guo and others, 2020). It reads its files
itself: an opened index is a copy in memory, not the mapped artifact. Building and searching use one thread.
"""

import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scann.scann_ops.py import scann_ops_pybind
from torch import Tensor

from shortlist.errors import ArtifactError
from shortlist.index.approximate import ApproximateIndex
from shortlist.index.params import MIN_ITEMS, ScannParams
from shortlist.index.vector_index import VectorIndex, checked_vectors

DIMENSIONS_PER_BLOCK = 2  # floats per code
ANISOTROPIC_THRESHOLD = 0.2  # the value its authors use


@dataclass(frozen=True, eq=False)
class ScannIndex(ApproximateIndex):
    """A ScaNN searcher with its parameters; the searcher is None for an empty catalogue."""

    kind: ClassVar[str] = "scann"

    params: ScannParams
    inner: Any

    @classmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        """An index of `vectors` [N, D]; ScaNN takes no seed, so two builds may differ."""
        items = checked_vectors(vectors).cpu().numpy()
        params = ScannParams.of(settings).resolved(*items.shape)
        return cls(len(items), items.shape[1], params, _searcher(items, params) if len(items) else None)

    def raw_search(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        options: dict[str, int] = {}
        if self.n_items >= MIN_ITEMS:
            probes = min(self.params.nprobe * effort, self.params.nlist)
            rescored = min(k * self.params.refine * effort, self.n_items)
            options = {"leaves_to_search": probes, "pre_reorder_num_neighbors": rescored}
        rows, scores = self.inner.search_batched(queries, final_num_neighbors=k, **options)
        empty = ~np.isfinite(scores)  # unfilled places
        return np.where(empty, -1, rows.astype(np.int64)), scores

    @property
    def max_effort(self) -> int:
        return max(1, -(-self.params.nlist // self.params.nprobe))

    def settings(self) -> dict[str, Any]:
        return {"n_items": self.n_items, "width": self.width, **self.params.as_dict()}

    def tensors(self) -> dict[str, Tensor]:
        if self.inner is None:
            return {}
        with tempfile.TemporaryDirectory(prefix="shortlist-") as folder:
            self.inner.serialize(folder, relative_path=True)
            files = sorted(path for path in Path(folder).iterdir() if path.is_file())
            return {
                path.name: torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8) for path in files
            }

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        params = dict(settings)
        n_items, width = params.pop("n_items"), params.pop("width")
        inner = _loaded(tensors) if n_items else None
        return cls(n_items, width, ScannParams.of(params), inner)

    def tuned(self, **knobs: Any) -> Self:
        params = ScannParams.of({**self.params.as_dict(), **knobs})
        return replace(self, params=params.resolved(self.n_items, self.width))


KINDS: Mapping[str, type[VectorIndex]] = {ScannIndex.kind: ScannIndex}


def _searcher(items: Any, params: ScannParams) -> Any:
    builder = scann_ops_pybind.builder(items, 10, "dot_product").set_n_training_threads(1)
    if len(items) < MIN_ITEMS:
        return builder.score_brute_force().build()
    partitioned = builder.tree(params.nlist, params.nprobe, training_sample_size=len(items))
    quantized = partitioned.score_ah(
        DIMENSIONS_PER_BLOCK, anisotropic_quantization_threshold=ANISOTROPIC_THRESHOLD
    )
    return quantized.reorder(10 * params.refine).build()


def _loaded(tensors: Mapping[str, Tensor]) -> Any:
    """A searcher from its files, written to a temporary folder while ScaNN reads them."""
    _check_names(tensors)
    with tempfile.TemporaryDirectory(prefix="shortlist-") as folder:
        for name, blob in tensors.items():
            Path(folder, name).write_bytes(blob.numpy().tobytes())
        try:
            return scann_ops_pybind.load_searcher(folder, assets_backcompat_shim=False)
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())[-200:]
            raise ArtifactError(
                f"index: its files are not a ScaNN index ({reason}); make the artifact again"
            ) from error


def _check_names(names: Iterable[str]) -> None:
    """Refuse other files than arrays and protocol buffers: ScaNN unpickles files of some names."""
    for name in names:
        if not re.fullmatch(r"\w+\.(npy|pb|pbtxt)", name):
            raise ArtifactError(f"index: {name!r} is not a file that ScaNN may read; make the artifact again")
