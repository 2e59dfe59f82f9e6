"""The first tree over item vectors: k-means from the top, until what is left fits into a leaf."""

from collections import deque

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.index.jtr.index import JTRIndex
from shortlist.index.jtr.tree import LeafTree
from shortlist.index.tree.assign import balanced_assign

ROUNDS = 20  # of k-means, at most
SLACK = 1.5  # a child may hold so many times its even share
HALF = 0.5  # no node is split into more children than would be half full leaves

Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]


def grow(vectors: Tensor, branch: int = 10, leaf: int = 100, seed: int = 0) -> JTRIndex:
    """A tree over the vectors [N, D] of all items, each in one leaf; a node's vector is the mean of its items.

    A node with more than `leaf` items is split by k-means (squared distances) into up to `branch` children, fewer
    where these would be leaves less than half full. None holds more than one and a half times its even share, so that
    depths differ little. It is made on the CPU, the same for the same vectors and seed, and lies where the vectors are.
    """
    if branch < 2 or leaf < 1:
        raise ConfigError(f"jtr: expected a branch from 2 and a leaf from 1, got {branch} and {leaf}")
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
    """Nodes in the order they were met, with all their items, and how many children each has."""
    children = np.cumsum([1, *counts]).astype(np.int32)
    own = [rows if not count else rows[:0] for rows, count in zip(held, counts, strict=True)]
    offsets = np.cumsum([0, *map(len, own)]).astype(np.int32)
    rows = np.concatenate(own).astype(np.int32)
    means = np.stack([vectors[one].mean(0) if len(one) else np.zeros(vectors.shape[1]) for one in held])
    arrays = [torch.from_numpy(one) for one in (children, offsets, rows)]
    tree = LeafTree(arrays[0], arrays[1], arrays[2], len(vectors), leaf)
    return JTRIndex(tree, torch.from_numpy(means.astype(np.float32)))


def _count(size: int, branch: int, leaf: int) -> int:
    """Into how many children a node of this size is split."""
    return max(2, min(branch, size, int(np.ceil(size / (HALF * leaf)))))


def _parts(x: Vectors, branch: int, seed: tuple[int, int]) -> list[Rows]:
    """Positions of like vectors together, at least two parts, none empty."""
    room = np.full(branch, min(int(np.ceil(SLACK * len(x) / branch)), len(x) - 1))
    centres = _first_centres(x, branch, np.random.default_rng(seed))
    label = _nearest(x, centres, room)
    for _ in range(ROUNDS):
        before = label
        label = _nearest(x, _means(x, label, centres), room)
        if np.array_equal(before, label):
            break
    parts = [np.flatnonzero(label == one) for one in range(branch)]
    return [part for part in parts if len(part)]


def _first_centres(x: Vectors, count: int, generator: np.random.Generator) -> Vectors:
    """Vectors far from each other [count, D], as k-means++ draws them."""
    chosen = [int(generator.integers(len(x)))]
    away = np.full(len(x), np.inf)
    for draw in generator.random(count - 1):
        away = np.minimum(away, ((x - x[chosen[-1]]) ** 2).sum(1, dtype=np.float64))
        total = away.cumsum()
        chosen.append(min(int(np.searchsorted(total, draw * total[-1], side="right")), len(x) - 1))
    return x[chosen]


def _nearest(x: Vectors, centres: Vectors, room: Rows) -> Rows:
    """The centre of each vector: the nearest with room; those that would lose most by another come first."""
    scores = x @ centres.T - (centres**2).sum(1) / 2  # [s, C]: the larger, the nearer
    best = np.partition(scores, -2, axis=1)[:, -2:]
    return balanced_assign(scores, room, best[:, 1] - best[:, 0])


def _means(x: Vectors, label: Rows, before: Vectors) -> Vectors:
    """The centres of the parts [C, D]; one that lost all its vectors stays where it was."""
    member = (label == np.arange(len(before))[:, None]).astype(np.float32)  # [C, s]
    counts = member.sum(1, keepdims=True)
    return np.where(counts > 0, member @ x / np.maximum(counts, 1), before)
