"""Threshold between active and inactive users, from two vectors per user that were fitted on disjoint events.

The error of a vector fitted on t events is taken as Q / (t + 1), the variance of the users' true vectors as V. Two
vectors a and b of one user have independent errors, so half the squared distance between them estimates the error, and
the inner product of their distances from the mean estimates V without it.

A regression of |phi - m|^2 on 1 / (T + 1) is no substitute: regularised vectors shrink where T is small, and the slope
can be negative.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError

Floats = NDArray[np.float64]

MOST_DRIFT = 2.0  # of Q over t; above it the error does not fall like 1 / (T + 1)
CHUNK = 1 << 22  # numbers of a block of `information_q`


@dataclass(frozen=True)
class Moments:
    """Estimates from two vectors per user, each fitted on t events."""

    t: int
    q: float  # error times t + 1
    v: float  # variance of the true vectors around their mean; not positive where no variance is found
    threshold: int | None  # None: no variance is found, so the common start is better for every user


@dataclass(frozen=True)
class LengthBin:
    """Variance of the true vectors of users with a number of events in a range."""

    low: int
    high: int | None  # None: no upper end
    users: int
    v: float | None  # None without users


def crossing(q: float, v: float) -> int | None:
    """The smallest T with q / (T + 1) <= v: ceil(q / v) - 1, at least 0; None for v <= 0, where there is none."""
    return max(math.ceil(q / v) - 1, 0) if v > 0 else None


def split_half_moments(a: NDArray[Any], b: NDArray[Any], t: int) -> Moments:
    """Q, V and their threshold from vectors a and b [U, D], fitted on two disjoint random halves of 2t events.

    Distances, and so the threshold, change when vectors are multiplied by a matrix, even if items are multiplied by its
    inverse and all scores stay the same: compare thresholds of several models in terms of their loss.
    """
    first, second = _pair(a, b)
    if t < 1:
        raise ConfigError(f"split halves: expected at least 1 event in a half, got t = {t}")
    q = (t + 1) * float(((first - second) ** 2).sum(1).mean()) / 2
    v = float(_products(first, second).mean())
    return Moments(t, q, v, crossing(q, v))


def q_drift(moments: Sequence[Moments]) -> float:
    """The largest Q over the smallest one among several t; `MOST_DRIFT` is the most the 1 / (T + 1) law allows."""
    values = [one.q for one in moments]
    if len(values) < 2 or min(values) <= 0:
        raise ConfigError(f"drift of Q: expected moments of 2 or more t with positive Q, got Q = {values}")
    return max(values) / min(values)


def follows_law(moments: Sequence[Moments]) -> bool:
    """Whether Q is constant over t up to the factor `MOST_DRIFT`, as a threshold from Q / V needs."""
    return q_drift(moments) <= MOST_DRIFT


def variance_by_length(
    a: NDArray[Any], b: NDArray[Any], lengths: NDArray[Any], starts: Sequence[int]
) -> tuple[LengthBin, ...]:
    """V by number of events [U], in bins that begin at `starts`; the mean vector is that of all users.

    The theory assumes that the number of events is independent of the user's vector: then V is the same in all bins.
    """
    first, second = _pair(a, b)
    counts = np.asarray(lengths)
    if counts.shape != (len(first),):
        raise DataError(f"V by length: expected {len(first)} lengths, one per user, got {list(counts.shape)}")
    if not starts or list(starts) != sorted(set(starts)):
        raise ConfigError(f"V by length: expected increasing starts of bins, got {list(starts)}")
    products = _products(first, second)
    ends = [*(start - 1 for start in starts[1:]), None]
    return tuple(_bin(products, counts, low, high) for low, high in zip(starts, ends, strict=True))


def information_q(items: NDArray[Any], probabilities: NDArray[Any], ridge: float = 0.0) -> float:
    """Mean over users of tr((H + ridge I)^-1), H = covariance of item vectors [I, D] under probabilities [U, I].

    This is Q of the maximum-likelihood vector of a softmax over fixed items: its error is about tr(H^-1) / T. A model
    whose scores do not change along some direction, such as one with fewer items than dimensions, needs ridge > 0.
    """
    vectors, shares = np.asarray(items, np.float64), np.asarray(probabilities, np.float64)
    _check_information(vectors, shares, ridge)
    rows = max(CHUNK // max(vectors.shape[1] ** 2, vectors.shape[0]), 1)
    blocks = (shares[low : low + rows] for low in range(0, len(shares), rows))
    return float(np.concatenate([_inverse_traces(vectors, block, ridge) for block in blocks]).mean())


def _pair(a: NDArray[Any], b: NDArray[Any]) -> tuple[Floats, Floats]:
    first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if first.ndim != 2 or first.shape != second.shape or not first.size:
        raise DataError(
            f"split halves: expected two arrays [users, width] of one shape with at least one user, got "
            f"{list(first.shape)} and {list(second.shape)}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise DataError("split halves: expected finite vectors, got NaN or infinity; leave these users out")
    return first, second


def _products(first: Floats, second: Floats) -> Floats:
    """Inner products of both vectors of each user around the mean of all [U]."""
    mean = (first.mean(0) + second.mean(0)) / 2
    products: Floats = ((first - mean) * (second - mean)).sum(1)
    return products


def _bin(products: Floats, counts: NDArray[Any], low: int, high: int | None) -> LengthBin:
    inside = (counts >= low) & (counts <= (np.inf if high is None else high))
    own = products[inside]
    return LengthBin(low, high, len(own), float(own.mean()) if len(own) else None)


def _inverse_traces(vectors: Floats, shares: Floats, ridge: float) -> Floats:
    """tr((H + ridge I)^-1) of each user [U]."""
    width = vectors.shape[1]
    means = shares @ vectors  # [U, D]
    squares = (vectors[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)  # [I, D * D]
    seconds = (shares @ squares).reshape(-1, width, width)
    covariances = seconds - means[:, :, None] * means[:, None, :]
    values = np.linalg.eigvalsh(covariances) + ridge  # [U, D]
    least, most = float(values.min()), float(values.max())
    if least <= 1e-12 * most:
        raise DataError(
            f"information: the item vectors do not vary in every direction for some user (eigenvalues from {least:.3g} "
            f"to {most:.3g}); give ridge > 0"
        )
    traces: Floats = (1 / values).sum(1)
    return traces


def _check_information(vectors: Floats, shares: Floats, ridge: float) -> None:
    if vectors.ndim != 2 or shares.ndim != 2 or shares.shape[1] != len(vectors) or not shares.size:
        raise DataError(
            f"information: expected items [items, width] and probabilities [users, items], got "
            f"{list(vectors.shape)} and {list(shares.shape)}"
        )
    if not np.isfinite(vectors).all() or not (shares >= 0).all() or abs(shares.sum(1) - 1).max() > 1e-4:
        raise DataError("information: expected finite item vectors and probabilities that sum to 1 per user")
    if not (ridge >= 0 and math.isfinite(ridge)):
        raise ConfigError(f"information: expected a finite ridge of 0 or more, got {ridge}")
