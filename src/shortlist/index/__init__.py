"""Something searchable, no learning."""

from shortlist.index.exact import search, top
from shortlist.index.registry import INDEXES, make_index, open_index, packed_index, unpacked_index
from shortlist.index.vector_index import VectorIndex

__all__ = [
    "INDEXES",
    "VectorIndex",
    "make_index",
    "open_index",
    "packed_index",
    "search",
    "top",
    "unpacked_index",
]
