"""What a narrow beam costs."""

from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.index.jtr.beam import search
from shortlist.index.jtr.index import JTRIndex


def lost_by_beam(
    index: JTRIndex, vectors: Tensor, queries: Tensor, k: int, beam: int, exclude: Tensor | None = None
) -> float:
    """The share of the k best of all items that a walk of `beam` leaves does not find, over the same vectors."""
    best = search(index, vectors, queries, k, len(index.tree.leaves), exclude).items
    found = search(index, vectors, queries, k, beam, exclude).items
    return 1.0 - float(is_in(best, found).sum()) / max(int((best >= 0).sum()), 1)
