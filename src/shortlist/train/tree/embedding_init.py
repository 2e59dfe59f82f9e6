"""Initial node embeddings from the interactions instead of random numbers.

An item's vector is its row of a factorised user-item matrix (PIFA); a node's is the mean of the items below it. With
them attention finds similar histories and nodes from the first step on; from random embeddings that takes thousands.
"""

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.index.tree import TreeIndex, pifa, project

NOISE = 1e-5  # of the largest standard deviation: less is rounding


def item_vectors(events: Interactions, width: int, seed: int) -> Tensor:
    """A vector per item, every column with mean 0 and deviation 1 over items with events: float32 [n_items, width].

    The first singular direction, popularity, is left out. Items without events are random, and so are columns beyond
    the rank of the matrix.
    """
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(events.n_items, width, generator=generator)
    known = torch.from_numpy(np.unique(events.items).astype(np.int64))
    if len(known) < 2:
        return vectors
    factors = project(pifa(events.weighted_matrix()), width + 1, seed)[known, 1:]
    if not factors.shape[1]:
        return vectors
    vectors[known, : factors.shape[1]] = standardise(factors, vectors[known, : factors.shape[1]])
    return vectors


def init_embeddings(index: TreeIndex, vectors: Tensor, spread: float) -> None:
    """Write vectors [n_items, D] into the tables of an index, their means for inner nodes, with deviation `spread`.

    Nodes without an item below, and levels of fewer nodes than a vector has columns, keep their random embeddings.
    """
    shape, table, scorer = index.tree.shape, index.scorer.nodes.weight, index.scorer
    item_of_leaf = index.tree.item_of_leaf.cpu().long()
    leaves = torch.nonzero(item_of_leaf >= 0)[:, 0]
    by_leaf = vectors.cpu()[item_of_leaf[leaves]]  # [leaves, D]; sums on a GPU have no fixed order
    with torch.no_grad():
        for level in range(1, shape.height + 1):
            nodes, position, count = torch.unique(
                shape.ancestor(leaves, level), return_inverse=True, return_counts=True
            )
            if len(nodes) < max(by_leaf.shape[1], 2):
                continue
            sums = by_leaf.new_zeros(len(nodes), by_leaf.shape[1]).index_add_(0, position, by_leaf)
            means = sums / count[:, None]
            rows = index.rows(level, nodes.to(table.device))
            table[rows] = spread * standardise(means.to(table.device), table[rows] / spread)
        if scorer.items is not None:
            random = scorer.items.weight[: len(vectors)] / spread
            scorer.items.weight[: len(vectors)] = spread * standardise(vectors.to(table.device), random)


def standardise(vectors: Tensor, fallback: Tensor) -> Tensor:
    """Every column with mean 0 and deviation 1; a constant column is taken from `fallback`."""
    centred = vectors - vectors.mean(0)
    deviation = centred.square().mean(0).sqrt()
    varies = deviation > NOISE * deviation.amax().clamp(min=1e-30)
    return torch.where(varies, centred / deviation.clamp(min=1e-30), fallback)
