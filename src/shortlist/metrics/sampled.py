"""Expected ranking metrics among random negatives: the mean over all draws."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from shortlist.errors import ConfigError

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


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
    others = max(n_items - 1, 1)  # without other items the rank is 1
    return np.asarray(stats.hypergeom.cdf(k - 1, others, rank - 1, negatives), np.float64)


def _check_ranks(rank: Floats, n_items: int, n_neg: int, k: int) -> None:
    if n_items < 1 or n_neg < 1 or k < 1:
        got = f"{n_items}, {n_neg} and {k}"
        raise ConfigError(f"sampled metrics: expected n_items, n_neg and k from 1, got {got}")
    # Also refuses NaN.
    bad = ~((rank >= 1) & (rank <= n_items) & (2 * rank == np.rint(2 * rank)))
    if bad.any():
        raise ConfigError(
            f"sampled metrics: expected whole or half ranks from 1 to {n_items}, got {rank[bad].flat[0]}"
        )
