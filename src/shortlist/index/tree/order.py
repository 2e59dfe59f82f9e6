"""Orders of items for the leaves of a tree: random, by popularity, by category, by similarity."""

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.errors import DataError
from shortlist.index.tree.kmeans import cluster
from shortlist.index.tree.shape import TreeShape


def random_order(n: int, seed: int) -> Tensor:
    """All items in random order, int64 [n]."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


def by_popularity(counts: Tensor) -> Tensor:
    """Items by descending interaction count, int64 [n]; ties by row."""
    return counts.cpu().argsort(descending=True, stable=True)


def by_category(categories: Tensor, seed: int = 0, shuffle: bool = True) -> Tensor:
    """Items category by category and by row within one, int64 [n]; categories in random or numeric order.

    Category numbers may have gaps. Items of an unknown category, a negative number, come last, by row.
    """
    if categories.dim() != 1 or categories.is_floating_point() or categories.is_complex():
        raise DataError(
            f"categories must be one integer per item, got {categories.dtype} {list(categories.shape)}"
        )
    categories = categories.cpu().long()
    found, rank = torch.unique(categories.clamp(min=-1), return_inverse=True)
    place = random_order(len(found), seed) if shuffle else torch.arange(len(found))
    place = place.masked_fill(found < 0, len(found))
    return place[rank].argsort(stable=True)


def by_vectors(vectors: Tensor, branch: int, seed: int = 0, rounds: int = 10) -> Tensor:
    """Items in an order that puts similar ones under one node, by balanced k-means down the tree, int64 [n].

    Similarity is the cosine of `vectors` [n, D]. Items without a vector (all zeros) come last, in random order.
    """
    if vectors.dim() != 2 or not vectors.is_floating_point() or len(vectors) == 0:
        raise DataError(f"vectors must be floats [items, width], got {vectors.dtype} {list(vectors.shape)}")
    if not bool(torch.isfinite(vectors).all()):
        raise DataError("vectors must be finite; some are not")
    vectors = vectors.detach().float()
    nonzero = (vectors != 0).any(1)
    known, unknown = nonzero.nonzero()[:, 0], (~nonzero).nonzero()[:, 0].cpu()
    unit = torch.nn.functional.normalize(vectors[known], dim=1)
    order = known[cluster(unit, TreeShape(len(vectors), branch), seed, rounds)]
    return torch.cat([order.cpu(), unknown[random_order(len(unknown), seed)]])


def pifa(matrix: Any, features: Any = None) -> sparse.csr_array:
    """Positive instance feature aggregation: the normalized sum of the features of an item's rows, sparse [items, f].

    `matrix` [rows, items] is sparse, of training events only; a row is a user or a window. Without `features` [rows, f]
    each row is its own feature, so the vector is the item's column of the user-item matrix. An item without events
    has an empty vector.
    """
    rows = sparse.csr_array(matrix, dtype=np.float64).T.tocsr()  # [items, rows]
    vectors = (
        rows if features is None else sparse.csr_array(rows @ sparse.csr_array(features, dtype=np.float64))
    )
    if not np.isfinite(vectors.data).all():
        raise DataError("events and features must be finite; some are not")
    lengths = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return sparse.csr_array(sparse.diags_array(scale) @ vectors)


def project(vectors: Any, width: int = 64, seed: int = 0, rounds: int = 4) -> Tensor:
    """Sparse vectors [n, f] projected to `width` dimensions that preserve inner products best, float32 [n, width].

    Truncated singular value decomposition by `rounds` of power iteration; never allocates n x f.
    """
    z = sparse.csr_array(vectors, dtype=np.float64)
    width = min(width, *z.shape)
    base = np.random.default_rng(seed).standard_normal((z.shape[1], width))
    for _ in range(rounds):
        base = z.T @ np.linalg.qr(z @ base)[0]  # [f, width]
    span = np.linalg.qr(z @ base)[0]  # [n, width]
    small = z.T @ span  # [f, width]
    squares, rotation = np.linalg.eigh(small.T @ small)
    scaled = span @ (rotation * np.sqrt(np.maximum(squares, 0)))[:, ::-1]
    return torch.from_numpy(np.ascontiguousarray(scaled, dtype=np.float32))
