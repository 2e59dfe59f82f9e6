"""Index kinds by the names recipes use, how an index is built, and how it is stored in an artifact."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.errors import ArtifactError, ConfigError, MissingExtraError
from shortlist.index.exact_index import ExactIndex
from shortlist.index.vector_index import VectorIndex

# Module of a kind, the package it needs and the extra that installs it.
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
HEADER = "index.header"  # kind and settings, as JSON bytes


def make_index(kind: str, vectors: Tensor, seed: int = 0, **settings: Any) -> VectorIndex:
    """An index of `vectors` [N, D] of one of the kinds in `INDEXES`; the same seed gives the same index."""
    return index_type(kind).make(vectors, seed, **settings)


def open_index(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> VectorIndex:
    """An index back from its kind, settings and tensors; memory-mapped tensors stay mapped."""
    values = dict(settings)
    return index_type(values.pop("kind")).build(values, tensors)


def index_type(kind: str) -> type[VectorIndex]:
    """The class of a kind; the package it needs is imported now, not before."""
    if kind == ExactIndex.kind:
        return ExactIndex
    if kind not in OPTIONAL:
        raise ConfigError(f"index must be one of {', '.join(INDEXES)}, got {kind!r}")
    module, package, extra = OPTIONAL[kind]
    try:
        found: type[VectorIndex] = import_module(module).KINDS[kind]
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(package, extra) from error
    return found


def index_to_tensors(index: VectorIndex) -> dict[str, Tensor]:
    """An index as named tensors, everything `index_from_tensors` needs."""
    header = json_to_tensor({"kind": index.kind, **index.settings()})
    return {**with_prefix(PREFIX, index.tensors()), HEADER: header}


def index_from_tensors(tensors: Mapping[str, Tensor]) -> VectorIndex | None:
    """The index stored in these tensors, None if they hold none."""
    if HEADER not in tensors:
        return None
    header = json_from_tensor(tensors, HEADER, "index")
    own = {name: tensor for name, tensor in tensors.items() if name != HEADER}
    try:
        return open_index(header, without_prefix(PREFIX, own))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(
            f"index: {HEADER!r} does not describe the stored index ({error!r}); make the artifact again"
        ) from error
