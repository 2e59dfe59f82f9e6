"""The index of ScaNN behind our interface; this file is imported only when it is asked for.

ScaNN quantises vectors so that what is large in inner products is kept best (Guo and others, 2020). It reads its files
itself: an opened index lies in memory, not in the mapped artifact. Searches run on one thread, and so does the making.
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
from shortlist.index.params import FEW, ScannChoices
from shortlist.index.vector_index import VectorIndex, checked_vectors

BLOCK = 2  # floats of a code
STRETCH = 0.2  # the threshold of anisotropic quantisation that its authors use


@dataclass(frozen=True, eq=False)
class ScannIndex(ApproximateIndex):
    """A searcher of ScaNN, and how it is asked; None where there is nothing to search among."""

    kind: ClassVar[str] = "scann"

    choices: ScannChoices
    inner: Any

    @classmethod
    def make(cls, vectors: Tensor, seed: int = 0, **settings: Any) -> Self:
        """An index of vectors; ScaNN takes no seed, and two of the same vectors may differ: keep the one made."""
        items = checked_vectors(vectors).cpu().numpy()
        choices = ScannChoices.of(cls.kind, settings).fitted(*items.shape)
        return cls(len(items), items.shape[1], choices, _made(items, choices) if len(items) else None)

    def ask(self, queries: Any, k: int, effort: int) -> tuple[Any, Any]:
        searched: dict[str, int] = {}
        if self.n_items >= FEW:
            probes = min(self.choices.nprobe * effort, self.choices.nlist)
            again = min(k * self.choices.refine * effort, self.n_items)
            searched = {"leaves_to_search": probes, "pre_reorder_num_neighbors": again}
        rows, scores = self.inner.search_batched(queries, final_num_neighbors=k, **searched)
        empty = ~np.isfinite(scores)  # places that nothing was found for
        return np.where(empty, -1, rows.astype(np.int64)), scores

    @property
    def most(self) -> int:
        return max(1, -(-self.choices.nlist // self.choices.nprobe))

    def settings(self) -> dict[str, Any]:
        return {"n_items": self.n_items, "width": self.width, **self.choices.given()}

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
        choices = dict(settings)
        n_items, width = choices.pop("n_items"), choices.pop("width")
        inner = _opened(tensors) if n_items else None
        return cls(n_items, width, ScannChoices.of(cls.kind, choices), inner)

    def tuned(self, **knobs: Any) -> Self:
        choices = ScannChoices.of(self.kind, {**self.choices.given(), **knobs})
        return replace(self, choices=choices.fitted(self.n_items, self.width))


KINDS: Mapping[str, type[VectorIndex]] = {ScannIndex.kind: ScannIndex}


def _made(items: Any, choices: ScannChoices) -> Any:
    builder = scann_ops_pybind.builder(items, 10, "dot_product").set_n_training_threads(1)
    if len(items) < FEW:
        return builder.score_brute_force().build()
    split = builder.tree(choices.nlist, choices.nprobe, training_sample_size=len(items))
    coded = split.score_ah(BLOCK, anisotropic_quantization_threshold=STRETCH)
    return coded.reorder(10 * choices.refine).build()


def _opened(tensors: Mapping[str, Tensor]) -> Any:
    """A searcher from its files, which are written to a folder for as long as ScaNN reads them."""
    _check_names(tensors)
    with tempfile.TemporaryDirectory(prefix="shortlist-") as folder:
        for name, blob in tensors.items():
            Path(folder, name).write_bytes(blob.numpy().tobytes())
        try:
            return scann_ops_pybind.load_searcher(folder, assets_backcompat_shim=False)
        except (ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())[-200:]
            raise ArtifactError(
                f"index: its files are none of ScaNN ({said}); make the artifact again"
            ) from error


def _check_names(names: Iterable[str]) -> None:
    """ScaNN unpickles what it finds under some names: only files of numbers and texts may come from an artifact."""
    for name in names:
        if not re.fullmatch(r"\w+\.(npy|pb|pbtxt)", name):
            raise ArtifactError(f"index: {name!r} is no file that ScaNN may read; make the artifact again")
