"""What beam search loses in a tree, compared with exhaustive search over all leaves."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.index.tree import Found, TreeIndex, exhaustive, search


@dataclass(frozen=True)
class LossCounts:
    """Pairs of user and relevant item: relevant - returned = scorer + beam - only_by_beam.

    `absent`, `seen` and `beyond_k` are disjoint parts of `scorer`.
    """

    relevant: int
    returned: int
    scorer: int  # not among the top k of all leaves
    beam: int  # among them, but lost by beam search
    only_by_beam: int  # not among them, returned only because the beam dropped better leaves
    absent: int  # without a leaf
    seen: int  # in the history, and excluded
    beyond_k: int  # of users with more than k relevant items

    @property
    def ranked_too_low(self) -> int:
        """Relevant items that the scorer ranks below k, without those it could not return."""
        return self.scorer - self.absent - self.seen - self.beyond_k


class SearchComparison(NamedTuple):
    """Beam search and exhaustive search for the same users."""

    found: Found  # by beam search, traced
    best: Found  # by exhaustive search
    top_alive: Tensor  # bool [U, k, H + 1]: the ancestor of each of the top k is in the beam, level by level
    relevant_alive: Tensor  # bool [U, R, H + 1], the same for relevant items
    outside_top: Tensor  # bool [U, R]: relevant items that are not among the top k of all leaves


@dataclass(frozen=True)
class SearchSettings:
    """How a tree is searched; `exclude_seen` excludes items of the history."""

    k: int
    beam: int
    product: bool = False
    exclude_seen: bool = False

    def beam_search(self, index: TreeIndex, history: Tensor, trace: bool = True, skip: bool = True) -> Found:
        exclude = history if self.exclude_seen else None
        return search(index, history, self.k, self.beam, exclude, path=self.product, trace=trace, skip=skip)

    def exhaustive_search(self, index: TreeIndex, history: Tensor) -> Found:
        return exhaustive(index, history, self.k, history if self.exclude_seen else None, path=self.product)


def compare_searches(
    index: TreeIndex, history: Tensor, relevant: Tensor, settings: SearchSettings
) -> SearchComparison:
    """Both searches for histories [U, K], with the relevant items [U, R] followed, -1 = padding."""
    found, best = settings.beam_search(index, history), settings.exhaustive_search(index, history)
    return SearchComparison(
        found,
        best,
        survival(index, found, best.items),
        survival(index, found, relevant),
        ~is_in(relevant, best.items) & (relevant >= 0),
    )


def survival(index: TreeIndex, found: Found, items: Tensor) -> Tensor:
    """Whether each item [U, R] can still be returned after each level: bool [U, R, H + 1], never True after a False.

    At an inner level its ancestor is in the beam; at the leaves it is among the results. Levels with no more nodes than
    the beam keep every item that has a leaf.
    """
    tree, leaves = index.tree, index.tree.leaves(items)
    alive = (leaves >= 0)[:, :, None].repeat(1, 1, tree.shape.height + 1)
    for beam in found.beams[:-1]:
        alive[:, :, beam.level] = is_in(tree.shape.ancestor(leaves, beam.level), beam.nodes)
    alive[:, :, -1] = is_in(items, found.items)
    return alive


def lost_at(alive: Tensor, exists: Tensor) -> Tensor:
    """How many of the existing items [U, R] are lost at each level: int64 [H + 1]; the sum is all lost items."""
    before = torch.cat([exists[:, :, None], alive[:, :, :-1]], 2)
    return (before & ~alive & exists[:, :, None]).sum((0, 1))


def count_losses(
    compared: SearchComparison, relevant: Tensor, index: TreeIndex, history: Tensor, exclude_seen: bool
) -> LossCounts:
    """Losses of relevant items [U, R] by cause."""
    exists = relevant >= 0
    absent = exists & (index.tree.leaves(relevant) < 0)
    seen = is_in(relevant, history) & ~absent if exclude_seen else torch.zeros_like(exists)
    returned = compared.relevant_alive[:, :, -1]
    outside = compared.outside_top
    possible = (exists & ~absent & ~seen).sum(1)
    beyond_k = (possible - compared.best.items.shape[1]).clamp(min=0)  # [U]
    counts = (
        exists,
        returned,
        outside,
        exists & ~outside & ~returned,
        outside & returned,
        absent,
        seen,
        beyond_k,
    )
    return LossCounts(*(int(one.sum()) for one in counts))
