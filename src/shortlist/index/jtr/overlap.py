"""Overlapping clusters: items are assigned to the leaves that beam search reaches for the queries that target them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.index.jtr.tree import LeafTree
from shortlist.index.tree.assign import balanced_assign

BLOCK = 1 << 22  # entries of a block of items x leaves
FORBIDDEN = -1.0

Floats = NDArray[np.float64]


def overlap(tree: LeafTree, votes: sparse.csr_matrix, vectors: Tensor, copies: int = 2) -> LeafTree:
    """The same nodes, every item in its best leaves, at most `copies` of them, no leaf above its capacity.

    `votes` [N, leaves] counts the queries with this target whose beam reached the leaf. Every item gets its first leaf
    before any item gets a second one, items with many votes first. Further leaves need at least one vote. Ties, and
    items without votes, are decided by the distance to the mean of `vectors` in the leaf.
    """
    leaves = tree.leaves
    if copies < 1 or votes.shape != (tree.n_items, len(leaves)):
        raise ConfigError(
            f"overlap: expected copies from 1 and votes of {tree.n_items} items for {len(leaves)} leaves, "
            f"got copies={copies} and {votes.shape}"
        )
    if tree.n_items == 0:
        return tree
    known = vectors.detach().float().cpu().numpy().astype(np.float64)
    order = np.argsort(-np.asarray(votes.sum(1)).ravel(), kind="stable")
    capacity = np.full(len(leaves), tree.leaf)
    proximity = _Proximity(known, _means(tree, known))
    assigned = np.full((tree.n_items, 0), -1)
    for _ in range(min(copies, len(leaves))):
        assigned = np.concatenate(
            [assigned, _next_leaves(order, votes, proximity, assigned, capacity)[:, None]], axis=1
        )
    items, copy = np.nonzero(assigned >= 0)
    at = leaves.cpu().numpy()[assigned[items, copy]]
    return tree.filled(torch.from_numpy(items).to(tree.device), torch.from_numpy(at).to(tree.device))


def _next_leaves(
    order: NDArray[np.int64],
    votes: sparse.csr_matrix,
    proximity: "_Proximity",
    assigned: NDArray[np.int64],
    capacity: NDArray[np.int64],
) -> NDArray[np.int64]:
    """One more leaf for each item, -1 = none [N]; reduces `capacity`."""
    chosen = np.full(len(order), -1)
    step = max(1, BLOCK // len(capacity))
    for start in range(0, len(order), step):
        rows = order[start : start + step]
        counts = votes[rows].toarray().astype(np.float64)  # [m, leaves]
        scores = counts + proximity(rows)
        if assigned.shape[1]:
            scores = _for_further_copies(scores, counts, assigned[rows])
        with_none = np.append(
            capacity, len(rows) if assigned.shape[1] else 0
        )  # the last candidate is no leaf
        taken = balanced_assign(_with_no_leaf(scores), with_none, -np.arange(len(rows)))
        chosen[rows] = np.where(taken < len(capacity), taken, -1)
        capacity -= np.bincount(taken, minlength=len(with_none))[:-1]
    return chosen


def _for_further_copies(scores: Floats, votes: Floats, assigned: NDArray[np.int64]) -> Floats:
    """Scores for a further leaf: one without votes, or that already holds the item, is worse than none."""
    scores = np.where(votes > 0, scores, FORBIDDEN)
    rows, copy = np.nonzero(assigned >= 0)
    scores[rows, assigned[rows, copy]] = FORBIDDEN
    return scores


def _with_no_leaf(scores: Floats) -> Floats:
    return np.pad(scores, ((0, 0), (0, 1)))


class _Proximity:
    """Proximity of items to leaves in [0, 1/2], so that it only breaks ties of votes."""

    def __init__(self, vectors: Floats, centres: Floats) -> None:
        self.vectors, self.centres = vectors, centres

    def __call__(self, rows: NDArray[np.int64]) -> Floats:
        scores = self.vectors[rows] @ self.centres.T - (self.centres**2).sum(1) / 2  # larger is nearer
        low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
        scaled: Floats = 0.5 * (scores - low) / np.maximum(high - low, 1e-12)
        return scaled


def _means(tree: LeafTree, vectors: Floats) -> Floats:
    """The mean vector of the items of every leaf [leaves, D]; of all items for an empty leaf."""
    offsets, rows = tree.offsets.cpu().numpy(), tree.rows.cpu().numpy()
    spans: Any = ((offsets[leaf], offsets[leaf + 1]) for leaf in tree.leaves.tolist())
    whole = vectors.mean(0)
    return np.stack([vectors[rows[a:b]].mean(0) if b > a else whole for a, b in spans])
