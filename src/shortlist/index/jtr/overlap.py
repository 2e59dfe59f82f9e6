"""Overlapped clusters: items move into the leaves that the queries which want them walk to."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.index.jtr.tree import LeafTree
from shortlist.index.tree.assign import balanced_assign

BLOCK = 1 << 22  # numbers of a block of items x leaves
NEVER = -1.0

Floats = NDArray[np.float64]


def overlap(tree: LeafTree, votes: sparse.csr_matrix, vectors: Tensor, copies: int = 2) -> LeafTree:
    """The same nodes, every item in its best leaves, `copies` at most, no leaf above its limit.

    `votes` [N, leaves]: how many queries that want the item walked to the leaf, leaves in their order. The first place
    of every item is served before any second one, items with many votes before those with few. Further places are
    only where there are votes. Equal votes, and items without any, go by how near the leaf's mean of `vectors` is.
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
    room = np.full(len(leaves), tree.leaf)
    near = _Near(known, _means(tree, known))
    held = np.full((tree.n_items, 0), -1)
    for _ in range(min(copies, len(leaves))):
        held = np.concatenate([held, _places(order, votes, near, held, room)[:, None]], axis=1)
    items, nth = np.nonzero(held >= 0)
    at = leaves.cpu().numpy()[held[items, nth]]
    return tree.filled(torch.from_numpy(items).to(tree.device), torch.from_numpy(at).to(tree.device))


def _places(
    order: NDArray[np.int64],
    votes: sparse.csr_matrix,
    near: "_Near",
    held: NDArray[np.int64],
    room: NDArray[np.int64],
) -> NDArray[np.int64]:
    """One more leaf for each item, -1 = none [N]; `room` is used up."""
    chosen = np.full(len(order), -1)
    step = max(1, BLOCK // len(room))
    for start in range(0, len(order), step):
        rows = order[start : start + step]
        wish = votes[rows].toarray().astype(np.float64)  # [m, leaves]
        wish = _later(wish + near(rows), wish, held[rows]) if held.shape[1] else wish + near(rows)
        capacity = np.append(room, len(rows) if held.shape[1] else 0)  # the last is no leaf at all
        took = balanced_assign(_with_nowhere(wish), capacity, -np.arange(len(rows)))
        chosen[rows] = np.where(took < len(room), took, -1)
        room -= np.bincount(took, minlength=len(capacity))[:-1]
    return chosen


def _later(wish: Floats, votes: Floats, held: NDArray[np.int64]) -> Floats:
    """Wishes for a further place: a leaf that nobody voted for, or that holds the item, is worth less than none."""
    wish = np.where(votes > 0, wish, NEVER)
    rows, nth = np.nonzero(held >= 0)
    wish[rows, held[rows, nth]] = NEVER
    return wish


def _with_nowhere(wish: Floats) -> Floats:
    return np.pad(wish, ((0, 0), (0, 1)))


class _Near:
    """How near items are to leaves, between 0 and 1/2, so that it only decides where votes do not."""

    def __init__(self, vectors: Floats, centres: Floats) -> None:
        self.vectors, self.centres = vectors, centres

    def __call__(self, rows: NDArray[np.int64]) -> Floats:
        scores = self.vectors[rows] @ self.centres.T - (self.centres**2).sum(1) / 2  # the larger, the nearer
        low, high = scores.min(1, keepdims=True), scores.max(1, keepdims=True)
        scaled: Floats = 0.5 * (scores - low) / np.maximum(high - low, 1e-12)
        return scaled


def _means(tree: LeafTree, vectors: Floats) -> Floats:
    """The mean vector of every leaf's items [leaves, D]; of an empty leaf that of all items."""
    offsets, rows = tree.offsets.cpu().numpy(), tree.rows.cpu().numpy()
    spans: Any = ((offsets[one], offsets[one + 1]) for one in tree.leaves.tolist())
    whole = vectors.mean(0)
    return np.stack([vectors[rows[a:b]].mean(0) if b > a else whole for a, b in spans])
