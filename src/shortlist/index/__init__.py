"""Searchable structures over items, without training."""

from shortlist.index.exact import search, top
from shortlist.index.registry import INDEXES, index_from_tensors, index_to_tensors, make_index, open_index
from shortlist.index.vector_index import VectorIndex

__all__ = [
    "INDEXES",
    "VectorIndex",
    "index_from_tensors",
    "index_to_tensors",
    "make_index",
    "open_index",
    "search",
    "top",
]
