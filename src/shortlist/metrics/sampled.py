"""Ranking metrics against random negatives: the negatives of an event, and the expectation over all draws."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from shortlist.errors import ConfigError

ROUNDS = 6  # of the Feistel network
BLOCK = 1 << 18  # negatives that are drawn at a time
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Words = NDArray[np.uint32]


def expected_sampled_metrics(
    full_rank: ArrayLike, n_items: int, n_neg: int = 499, k: int = 10
) -> tuple[Floats, Floats]:
    """The expected 1 / rank and the probability of a rank up to k among the target and `n_neg` random negatives.

    A target of rank r among N items has the rank 1 + Hyp(N - 1, r - 1, n) among n negatives without replacement, so
    E[1 / rank] = N / ((n + 1) r) (1 - C(N - r, n + 1) / C(N, n + 1)). A half rank has the mean of its neighbours. With
    fewer than n other items all of them are negatives.
    """
    rank: NDArray[Any] = np.asarray(full_rank, np.float64)
    _check_ranks(rank, n_items, n_neg, k)
    negatives = min(n_neg, n_items - 1)
    doubled, at = np.unique(np.rint(2 * rank).astype(np.int64), return_inverse=True)
    low, high = doubled // 2, (doubled + 1) // 2
    whole = np.union1d(low, high)
    values = np.stack(
        [_expected_reciprocal(whole, n_items, negatives), _expected_recall(whole, n_items, negatives, k)]
    )
    mean = (values[:, np.searchsorted(whole, low)] + values[:, np.searchsorted(whole, high)]) / 2
    reciprocal, recall = mean[:, at.reshape(rank.shape)]
    return reciprocal, recall


def _expected_reciprocal(rank: Rows, n_items: int, negatives: int) -> Floats:
    """E[1 / rank] of whole ranks [r], without the differences of large logarithms."""
    drawn = negatives + 1
    # log(C(N - r, m) / C(N, m)) is the sum of log(1 - m / (N - i)) over i < r, as long as r <= N - m.
    left = np.arange(n_items, drawn, -1, dtype=np.float64)  # N - i
    logs = np.concatenate([[0.0], np.cumsum(np.log1p(-drawn / left))])
    none = np.where(rank < len(logs), logs[np.minimum(rank, len(logs) - 1)], -np.inf)
    none = np.where(rank <= n_items - drawn, none, -np.inf)
    return np.asarray(-np.expm1(none) * n_items / (drawn * rank))


def _expected_recall(rank: Rows, n_items: int, negatives: int, k: int) -> Floats:
    """P(rank <= k) of whole ranks [r]."""
    return np.asarray(stats.hypergeom.cdf(k - 1, n_items - 1, rank - 1, negatives), np.float64)


def keyed_negatives(
    event_ids: NDArray[Any], targets: NDArray[Any], n_items: int, n_neg: int, seed: int
) -> Rows:
    """Random items other than the target of each event, without replacement [b, min(n_neg, N - 1)].

    The items of an event depend on its id, its target and the seed alone: not on the batch, the model or the machine.
    They are the first values of a keyed permutation of the N - 1 other items.
    """
    if not 1 <= n_items <= 2**31 or n_neg < 1:
        raise ConfigError(f"negatives: expected 1 to 2^31 items and n_neg from 1, got {n_items} and {n_neg}")
    others, width = n_items - 1, min(n_neg, n_items - 1)
    if not len(targets) or not width:
        return np.empty((len(targets), width), np.int64)
    if n_neg >= others:
        drawn = np.broadcast_to(np.arange(others), (len(targets), others))
    else:
        drawn = _permuted(np.asarray(event_ids), others, width, seed)
    return drawn + (drawn >= np.asarray(targets)[:, None])


def _permuted(event_ids: NDArray[Any], count: int, width: int, seed: int) -> Rows:
    """The first `width` values of the permutation of 0 .. count - 1 of each event [b, width]."""
    drawn = np.empty((len(event_ids), width), np.int64)
    size = max(1, BLOCK // width)

    def fill(start: int) -> None:
        keys = _round_keys(event_ids[start : start + size], seed)
        drawn[start : start + size] = _first_values(keys, count, width)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(fill, range(0, len(event_ids), size)))
    return drawn
