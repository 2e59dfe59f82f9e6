"""The initial tree over item vectors: top-down k-means until the items of a node fit into a leaf."""

from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.index.jtr.index import JTRIndex
from shortlist.index.jtr.tree import LeafTree
from shortlist.index.tree.assign import balanced_assign

ITERATIONS = 20  # of k-means, at most
SLACK = 1.5  # most items of a child, relative to an even split
MIN_FILL = 0.5  # a node gets no more children than would be leaves this full

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]


def grow(vectors: Tensor, branch: int = 10, leaf: int = 100, seed: int = 0) -> JTRIndex:
    """A tree over the vectors [N, D] of all items, each in one leaf; the vector of a node is the mean of its items.

    A node with more than `leaf` items is split by k-means (squared distance) into up to `branch` children, fewer where
    they would be leaves less than half full. No child holds more than 1.5 times an even share, so depths differ little.
    Runs on the CPU, deterministic for the same vectors and seed; the index is moved to the device of the vectors.
    """
    if branch < 2 or leaf < 1:
        raise ConfigError(f"jtr: branch must be at least 2 and leaf at least 1, got {branch} and {leaf}")
    known = vectors.detach().float().cpu().numpy()
    if not np.isfinite(known).all():
        raise DataError("jtr: a vector is not finite; has the model diverged?")
    waiting, held, counts = deque([np.arange(len(known))]), list[Rows](), list[int]()
    while waiting:
        rows = waiting.popleft()
        parts = (
            []
            if len(rows) <= leaf
            else _parts(known[rows], _count(len(rows), branch, leaf), (seed, len(held)))
        )
        waiting.extend(rows[part] for part in parts)
        held.append(rows)
        counts.append(len(parts))
    return _index(known, held, counts, leaf).to(vectors.device)


def _index(vectors: Vectors, held: list[Rows], counts: list[int], leaf: int) -> JTRIndex:
    """The index from all nodes in level order, with their items and numbers of children."""
    children = np.cumsum([1, *counts]).astype(np.int32)
    own = [rows if not count else rows[:0] for rows, count in zip(held, counts, strict=True)]
    offsets = np.cumsum([0, *map(len, own)]).astype(np.int32)
    rows = np.concatenate(own).astype(np.int32)
    means = np.stack([vectors[items].mean(0) if len(items) else np.zeros(vectors.shape[1]) for items in held])
    arrays = [torch.from_numpy(array) for array in (children, offsets, rows)]
    tree = LeafTree(arrays[0], arrays[1], arrays[2], len(vectors), leaf)
    return JTRIndex(tree, torch.from_numpy(means.astype(np.float32)))


def _count(size: int, branch: int, leaf: int) -> int:
    """The number of children of a node of this size."""
    return max(2, min(branch, size, int(np.ceil(size / (MIN_FILL * leaf)))))


def _parts(x: Vectors, branch: int, seed: tuple[int, int]) -> list[Rows]:
    """Positions of the vectors of every cluster, at least two clusters, none empty."""
    room = np.full(branch, min(int(np.ceil(SLACK * len(x) / branch)), len(x) - 1))
    centres = _first_centres(x, branch, np.random.default_rng(seed))
    label = _nearest(x, centres, room)
    for _ in range(ITERATIONS):
        before = label
        label = _nearest(x, _means(x, label, centres), room)
        if np.array_equal(before, label):
            break
    parts = [np.flatnonzero(label == cluster) for cluster in range(branch)]
    return [part for part in parts if len(part)]


def _first_centres(x: Vectors, count: int, generator: np.random.Generator) -> Vectors:
    """Initial centres [count, D] by k-means++."""
    chosen = [int(generator.integers(len(x)))]
    distance = np.full(len(x), np.inf)
    for draw in generator.random(count - 1):
        distance = np.minimum(distance, ((x - x[chosen[-1]]) ** 2).sum(1, dtype=np.float64))
        total = distance.cumsum()
        chosen.append(min(int(np.searchsorted(total, draw * total[-1], side="right")), len(x) - 1))
    return x[chosen]


def _nearest(x: Vectors, centres: Vectors, room: Rows) -> Rows:
    """The nearest centre with free capacity per vector; vectors with the largest regret choose first."""
    scores = x @ centres.T - (centres**2).sum(1) / 2  # [s, C]: larger is nearer
    best = np.partition(scores, -2, axis=1)[:, -2:]
    return balanced_assign(scores, room, best[:, 1] - best[:, 0])


def _means(x: Vectors, label: Rows, before: Vectors) -> Vectors:
    """The centres of the clusters [C, D]; an empty cluster keeps its centre."""
    member = (label == np.arange(len(before))[:, None]).astype(np.float32)  # [C, s]
    counts = member.sum(1, keepdims=True)
    return np.where(counts > 0, member @ x / np.maximum(counts, 1), before)
