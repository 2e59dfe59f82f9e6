"""All kinds of indexes by the names recipes know them by, how one is made, and how they travel in files."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from shortlist.errors import ArtifactError, ConfigError, MissingExtraError
from shortlist.index.exact_index import ExactIndex
from shortlist.index.vector_index import VectorIndex

# The file that holds a kind, the package it needs and the extra that brings it.
FAISS = ("shortlist.index.faiss_index", "faiss", "ann")
SCANN = ("shortlist.index.scann_index", "scann", "scann")
OPTIONAL: Mapping[str, tuple[str, str, str]] = {
    "flat": FAISS,
    "hnsw": FAISS,
    "ivf": FAISS,
    "ivf-pq": FAISS,
    "residual": FAISS,
    "scann": SCANN,
}
INDEXES = ("exact", *OPTIONAL)

PREFIX = "index."
ABOUT = "index.about"  # kind and settings, as JSON in bytes


def make_index(kind: str, vectors: Tensor, seed: int = 0, **settings: Any) -> VectorIndex:
    """An index of `vectors` [N, D] of one of the kinds in `INDEXES`; the same seed gives the same index."""
    return index_type(kind).make(vectors, seed, **settings)


def open_index(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> VectorIndex:
    """An index back from its kind and settings, and its tensors; what is mapped stays mapped."""
    told = dict(settings)
    return index_type(told.pop("kind")).build(told, tensors)


def index_type(kind: str) -> type[VectorIndex]:
    """The class of a kind; the package it needs is imported now, not before."""
    if kind == ExactIndex.kind:
        return ExactIndex
    if kind not in OPTIONAL:
        raise ConfigError(f"index must be one of {', '.join(INDEXES)}, got {kind!r}")
    file, package, extra = OPTIONAL[kind]
    try:
        found: type[VectorIndex] = import_module(file).KINDS[kind]
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(package, extra) from error
    return found


def packed_index(index: VectorIndex) -> dict[str, Tensor]:
    """An index as tensors, all that `unpacked_index` needs."""
    about = json.dumps({"kind": index.kind, **index.settings()}, sort_keys=True).encode()
    own = {PREFIX + name: one for name, one in index.tensors().items()}
    return {**own, ABOUT: torch.frombuffer(bytearray(about), dtype=torch.uint8)}


def unpacked_index(tensors: Mapping[str, Tensor]) -> VectorIndex | None:
    """The index among some tensors, None where there is none."""
    if ABOUT not in tensors:
        return None
    names = [name for name in tensors if name.startswith(PREFIX) and name != ABOUT]
    try:
        told = json.loads(bytes(tensors[ABOUT].tolist()))
        return open_index(told, {name.removeprefix(PREFIX): tensors[name] for name in names})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(
            f"index: {ABOUT!r} does not tell of an index that is there ({error!r}); make the artifact again"
        ) from error
