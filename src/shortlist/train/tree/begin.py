"""Where node vectors begin: not by chance, but where the events already put them.

An item's vector says who met it (PIFA, in few numbers), a node's is the mean of the items below. Attention finds
likeness of histories and nodes there from the first step on; from chance it takes thousands of steps to appear.
"""

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.index.tree import TreeIndex, pifa, project


def item_vectors(events: Interactions, width: int, seed: int) -> Tensor:
    """A vector of every item, each number with mean 0 and deviation 1: float32 [n_items, width].

    The first direction of all, how often an item is met, is left out. Items nobody met, and numbers that so few users
    cannot give, are drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(events.n_items, width, generator=generator)
    if not len(events) or events.n_items < 2:
        return vectors
    found = even(project(pifa(events.matrix()), width + 1, seed)[:, 1:])
    met = torch.zeros(events.n_items, dtype=torch.bool)
    met[torch.from_numpy(events.items.astype(np.int64))] = True
    vectors[:, : found.shape[1]] = torch.where(met[:, None], found, vectors[:, : found.shape[1]])
    return vectors


def settle(index: TreeIndex, vectors: Tensor, spread: float) -> None:
    """Write vectors [n_items, D] into the tables of an index, means of them for inner nodes, with deviation `spread`.

    Nodes without an item below, and levels of fewer nodes than a vector has numbers, keep what chance gave them.
    """
    tree, scorer = index.tree, index.scorer
    shape, device = tree.shape, scorer.nodes.weight.device
    leaves = torch.nonzero(tree.item_of_leaf >= 0)[:, 0]  # those that hold an item
    laid = vectors.to(device)[tree.item_of_leaf[leaves].long()]  # [leaves, D]
    with torch.no_grad():
        for level in range(1, shape.height + 1):
            above, places = torch.unique(shape.ancestor(leaves, level), return_inverse=True)
            if len(above) < max(laid.shape[1], 2):
                continue
            sums = laid.new_zeros(len(above), laid.shape[1]).index_add_(0, places, laid)
            scorer.nodes.weight[index.rows(level, above)] = spread * even(sums)
        if scorer.items is not None:
            scorer.items.weight[: len(vectors)] = spread * even(vectors.to(device))


def even(vectors: Tensor) -> Tensor:
    """Every column with mean 0 and deviation 1; a column without any spread becomes 0."""
    apart = vectors - vectors.mean(0)
    deviation = apart.square().mean(0).sqrt()
    return torch.where(deviation > 1e-6, apart / deviation.clamp(min=1e-6), 0.0)
