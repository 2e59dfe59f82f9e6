"""Coverage: the share of positives that at least one nominator finds within its limit.

`rank[P, N]` is the place of each positive in the list of each nominator, from 0, and `ABSENT` where the list does not
hold it. A nominator with k slots covers the positives of rank below k.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shortlist.errors import ConfigError

ABSENT = int(np.iinfo(np.int32).max)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def checked_ranks(rank: ArrayLike) -> Ints:
    """Ranks [P, N] as integers; NaN, fractions, negative ranks and other shapes are refused."""
    given = np.asarray(rank)
    if given.ndim != 2 or given.shape[1] == 0:
        raise ConfigError(
            f"rank: expected positives by nominators [P, N], got the shape {given.shape}; "
            "give one row for each positive and one column for each nominator"
        )
    if given.dtype.kind == "f" and not np.array_equal(given, np.trunc(given)):
        raise ConfigError(
            "rank: expected whole numbers, got NaN or fractions; "
            f"write ABSENT ({ABSENT}) where a nominator does not return the positive"
        )
    if given.dtype.kind not in "iuf":
        raise ConfigError(f"rank: expected whole numbers, got the type {given.dtype}")
    whole = given.clip(max=ABSENT).astype(np.int64)
    if (whole < 0).any():
        raise ConfigError(
            f"rank: expected ranks from 0, got {whole.min()}; write ABSENT ({ABSENT}) for no rank"
        )
    return whole


def checked_limits(limits: ArrayLike) -> Ints:
    """Limits as integers; fractions and negative ones are refused."""
    given = np.asarray(limits)
    if given.dtype.kind not in "iuf" or not np.array_equal(given, np.trunc(given)) or (given < 0).any():
        raise ConfigError(f"limits: expected whole numbers from 0, got {given.tolist()}")
    return given.astype(np.int64)


def checked_segments(
    segments: ArrayLike | None, positives: int, count: int | None = None
) -> tuple[Ints, int]:
    """The segment of each positive [P] and the number of segments; without segments, one for all."""
    if segments is None:
        return np.zeros(positives, np.int64), count or 1
    own = np.asarray(segments)
    if own.shape != (positives,) or (own.size and own.dtype.kind not in "iu"):
        raise ConfigError(
            f"segments: expected a whole number for each of {positives} positives, "
            f"got {own.dtype} of the shape {own.shape}"
        )
    own = own.astype(np.int64)
    most = int(own.max(initial=-1)) + 1
    if (own < 0).any() or most > (most if count is None else count):
        raise ConfigError(f"segments: expected 0 to {(count or most) - 1}, got {own.min()} to {most - 1}")
    return own, max(most if count is None else count, 1)


def covered(rank: ArrayLike, limits: ArrayLike, segments: ArrayLike | None = None) -> Bools:
    """Whether each nominator finds each positive [P, N]; limits are [N], or [G, N] with a segment per positive."""
    ranks, slots = checked_ranks(rank), checked_limits(limits)
    own, _ = checked_segments(segments, len(ranks), len(slots) if slots.ndim == 2 else None)
    if slots.ndim not in (1, 2) or slots.shape[-1] != ranks.shape[1]:
        raise ConfigError(
            f"limits: expected one for each of {ranks.shape[1]} nominators, got the shape {slots.shape}"
        )
    if slots.ndim == 2 and len(slots) > 1 and segments is None:
        raise ConfigError(
            f"segments: expected one for each positive with {len(slots)} rows of limits, got none"
        )
    found: Bools = ranks < (slots[own] if slots.ndim == 2 else slots)
    return found


def found_by_any(found: Bools) -> Bools:
    """Whether at least one nominator finds each positive [P]."""
    return np.asarray(found.any(axis=1), np.bool_)


def coverage(rank: ArrayLike, limits: ArrayLike, segments: ArrayLike | None = None) -> float:
    """Share of the positives that at least one nominator finds; NaN without positives."""
    found = found_by_any(covered(rank, limits, segments))
    return float(found.mean()) if len(found) else float("nan")


def coverage_by_segment(
    rank: ArrayLike, limits: ArrayLike, segments: ArrayLike, count: int | None = None
) -> Floats:
    """Coverage of the positives of each segment [G], NaN for a segment without positives."""
    found = found_by_any(covered(rank, limits, segments))
    own, n_segments = checked_segments(segments, len(found), count)
    return per_segment(found, own, n_segments)


def per_segment(found: Bools, segments: Ints, count: int, weights: Floats | None = None) -> Floats:
    """Mean of `found` [P] over the positives of each segment [G], NaN without any."""
    weight = np.ones(len(found)) if weights is None else weights
    positives = np.bincount(segments, weight, count)
    hits = np.bincount(segments, weight * found, count)
    return np.asarray(np.divide(hits, positives, out=np.full(count, np.nan), where=positives > 0), np.float64)


def coverage_curves(rank: ArrayLike, most: int) -> Floats:
    """Coverage of each nominator alone with 0, 1, ..., `most` slots [N, most + 1]."""
    ranks = checked_ranks(rank).clip(max=most)
    counts = np.stack([np.bincount(one, minlength=most + 1)[:most] for one in ranks.T])
    hits = np.concatenate([np.zeros((len(counts), 1)), counts.cumsum(1)], axis=1)
    return np.asarray(hits / len(ranks) if len(ranks) else np.full_like(hits, np.nan), np.float64)


def marginal_gain(rank: ArrayLike, limits: ArrayLike, segments: ArrayLike | None = None) -> Floats:
    """Coverage that one more slot of each nominator adds [N]: positives at its next rank that no other one finds."""
    found = covered(rank, limits, segments)
    one_more = covered(rank, np.asarray(limits, np.int64) + 1, segments)
    missed = ~found_by_any(found)
    gained = (one_more & missed[:, None]).sum(0)
    return np.asarray(gained / len(found) if len(found) else np.full(gained.shape, np.nan), np.float64)
