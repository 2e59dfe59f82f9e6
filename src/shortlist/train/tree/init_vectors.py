"""Where node vectors begin: not by chance, but where the events already put them.

An item's vector says who met it (PIFA, in few numbers), a node's is the mean of the items below. Attention finds
likeness of histories and nodes there from the first step on; from chance it takes thousands of steps to appear.
"""

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.index.tree import TreeIndex, pifa, project

FAINT = 1e-5  # of the largest deviation: what is less is rounding


def item_vectors(events: Interactions, width: int, seed: int) -> Tensor:
    """A vector of every item, each number with mean 0 and deviation 1 over those met: float32 [n_items, width].

    The first direction of all, how often an item is met, is left out. Items nobody met, and numbers that these users
    cannot give, are drawn.
    """
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(events.n_items, width, generator=generator)
    met = torch.from_numpy(np.unique(events.items).astype(np.int64))
    if len(met) < 2:
        return vectors
    found = project(pifa(events.matrix()), width + 1, seed)[met, 1:]
    if not found.shape[1]:
        return vectors
    vectors[met, : found.shape[1]] = even(found, vectors[met, : found.shape[1]])
    return vectors


def settle(index: TreeIndex, vectors: Tensor, spread: float) -> None:
    """Write vectors [n_items, D] into the tables of an index, means of them for inner nodes, with deviation `spread`.

    Nodes without an item below, and levels of fewer nodes than a vector has numbers, keep what chance gave them.
    """
    shape, table, scorer = index.tree.shape, index.scorer.nodes.weight, index.scorer
    held = index.tree.item_of_leaf.cpu().long()
    leaves = torch.nonzero(held >= 0)[:, 0]  # those that hold an item
    laid = vectors.cpu()[held[leaves]]  # [leaves, D]; a GPU would add up in another order every time
    with torch.no_grad():
        for level in range(1, shape.height + 1):
            above, places, count = torch.unique(
                shape.ancestor(leaves, level), return_inverse=True, return_counts=True
            )
            if len(above) < max(laid.shape[1], 2):
                continue
            means = laid.new_zeros(len(above), laid.shape[1]).index_add_(0, places, laid) / count[:, None]
            rows = index.rows(level, above.to(table.device))
            table[rows] = spread * even(means.to(table.device), table[rows] / spread)
        if scorer.items is not None:
            drawn = scorer.items.weight[: len(vectors)] / spread
            scorer.items.weight[: len(vectors)] = spread * even(vectors.to(table.device), drawn)


def even(vectors: Tensor, otherwise: Tensor) -> Tensor:
    """Every column with mean 0 and deviation 1; one without any spread to speak of is taken from `otherwise`."""
    apart = vectors - vectors.mean(0)
    deviation = apart.square().mean(0).sqrt()
    there = deviation > FAINT * deviation.amax().clamp(min=1e-30)
    return torch.where(there, apart / deviation.clamp(min=1e-30), otherwise)
