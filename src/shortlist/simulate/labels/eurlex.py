"""Eurlex-4K as dense features and frequent labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data.sources.xmc import read_features, read_xmc
from shortlist.errors import ConfigError
from shortlist.simulate.labels.table import LabelTable

FOLDER = "eurlex-4k"
TRAIN, TEST = "eurlex_train.txt.xz", "eurlex_test.txt.xz"
SKIPPED = 2  # the most frequent labels are left out, as in the paper
EXTRA = 20  # directions of the random projection beyond the width
POWERS = 2  # power iterations

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Eurlex:
    """Documents as published: those of training and those of the test."""

    train: LabelTable
    test: LabelTable


def read_eurlex(
    folder: Path | str, n_labels: int = 100, *, skipped: int = SKIPPED, width: int = 400, seed: int = 0
) -> Eurlex:
    """Words as `width` dense features, and the most frequent labels after the first `skipped`.

    Features are a truncated singular value decomposition of the training documents, each of norm 1, turned by a random
    rotation so that no feature says more than another, with mean 0 and variance 1 on the training documents.
    """
    files = [Path(folder) / FOLDER / name for name in (TRAIN, TEST)]
    words = [_unit_rows(read_features(file)) for file in files]
    labels = [_label_matrix(file, rows.shape[0]) for file, rows in zip(files, words, strict=True)]
    n_known = max(one.shape[1] for one in labels)
    counts = np.bincount(labels[0].indices, minlength=n_known)
    if not 0 < n_labels <= n_known - skipped:
        raise ConfigError(
            f"eurlex: expected 1 to {n_known - skipped} labels after the first {skipped}, got {n_labels}"
        )
    if not 0 < width <= words[0].shape[1] - EXTRA:
        raise ConfigError(f"eurlex: expected a width of 1 to {words[0].shape[1] - EXTRA}, got {width}")
    kept = np.argsort(-counts, kind="stable")[skipped : skipped + n_labels]
    project = _projection(words[0], width, seed)
    dense = [rows @ project for rows in words]
    mean, deviation = dense[0].mean(0), dense[0].std(0)
    tables = [
        LabelTable(torch.from_numpy((rows - mean) / deviation), torch.from_numpy(_columns(one, kept)))
        for rows, one in zip(dense, labels, strict=True)
    ]
    return Eurlex(*tables)


def _label_matrix(file: Path, rows: int) -> sparse.csr_matrix:
    """Documents by labels."""
    events = read_xmc(file)
    users, items = (
        np.asarray(ids.dictionary)[np.asarray(ids.indices)] for ids in (events.users, events.items)
    )
    shape = (rows, int(items.max()) + 1)
    return sparse.csr_matrix((np.ones(len(items), np.float32), (users, items)), shape=shape)


def _columns(matrix: sparse.csr_matrix, kept: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether documents have the kept labels; a label that no document here has is false."""
    wide = sparse.csr_matrix(
        (matrix.data, matrix.indices, matrix.indptr),
        shape=(matrix.shape[0], max(matrix.shape[1], int(kept.max()) + 1)),
    )
    found: NDArray[np.bool_] = wide[:, kept].toarray() > 0
    return found


def _unit_rows(words: sparse.csr_matrix) -> sparse.csr_matrix:
    lengths = np.sqrt(np.asarray(words.multiply(words).sum(1)).ravel())
    return sparse.diags(1 / np.maximum(lengths, np.finfo(np.float32).tiny)).dot(words).astype(np.float32)


def _projection(words: sparse.csr_matrix, width: int, seed: int) -> Floats:
    """From words to rotated singular directions [W, D], by a randomised range finder (Halko et al., 2011)."""
    random = np.random.default_rng(seed)
    sketch = words @ random.standard_normal((words.shape[1], width + EXTRA)).astype(np.float32)
    for _ in range(POWERS):
        sketch = words @ np.linalg.qr(words.T @ np.linalg.qr(sketch)[0])[0]
    small = (words.T @ np.linalg.qr(sketch)[0]).T  # [width + EXTRA, W]
    directions = np.linalg.svd(small, full_matrices=False)[2][:width].T
    rotation = np.linalg.qr(random.standard_normal((width, width)))[0].astype(np.float32)
    found: Floats = directions @ rotation
    return found
