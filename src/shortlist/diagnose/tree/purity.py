"""Category purity of the nodes of a tree."""

import numpy as np
from numpy.typing import NDArray

from shortlist.index.tree import Tree

SHUFFLES = 3  # random orders for the baseline

Rows = NDArray[np.int64]


def purity(tree: Tree, categories: Rows, seed: int = 0) -> list[tuple[float, float]]:
    """For every level, the root first: the mean share of the most common category below a node, and its baseline.

    The baseline is the same for a random order of the items: small nodes are pure in any order, so only purity above
    the baseline counts.
    """
    taken = np.flatnonzero(tree.item_of_leaf.cpu().numpy() >= 0)
    here = categories[tree.item_of_leaf.cpu().numpy()[taken]]
    random = np.random.default_rng(seed)
    shuffled = [random.permutation(here) for _ in range(SHUFFLES)]
    found = []
    for level in range(tree.shape.height + 1):
        nodes = taken // tree.shape.width(level)
        baseline = [float(_common(nodes, order)[1].mean()) for order in shuffled]
        found.append((float(_common(nodes, here)[1].mean()), float(np.mean(baseline))))
    return found


def dominant(tree: Tree, categories: Rows, level: int) -> list[tuple[int, int, int, float]]:
    """Every node of a level with items: (node, number of items, most common category, its share)."""
    taken = np.flatnonzero(tree.item_of_leaf.cpu().numpy() >= 0)
    here = categories[tree.item_of_leaf.cpu().numpy()[taken]]
    nodes = taken // tree.shape.width(level)
    found, shares, kinds = _common(nodes, here)
    counts = np.bincount(nodes)[found]
    return [
        (int(node), int(count), int(kind), float(share))
        for node, count, kind, share in zip(found, counts, kinds, shares, strict=True)
    ]


def _common(nodes: Rows, kinds: Rows) -> tuple[Rows, NDArray[np.float64], Rows]:
    """For every node that occurs: the node, the share of its most common category, that category (ties: the lowest)."""
    n_kinds = int(kinds.max()) + 1
    pairs, counts = np.unique(nodes * n_kinds + kinds, return_counts=True)
    owner = pairs // n_kinds
    order = np.lexsort((pairs, -counts, owner))  # by node, the most common kind first
    first = np.flatnonzero(np.diff(owner[order], prepend=-1))
    best = order[first]
    return owner[best], counts[best] / np.bincount(nodes)[owner[best]], pairs[best] % n_kinds
