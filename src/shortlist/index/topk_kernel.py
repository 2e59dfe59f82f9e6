"""Top-k inner products on one CPU core: every vector is read once, only products above the running k-th best are kept.

Memory is that of the running top k. The GIL is released.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shortlist.index.simd_products import LANES, SIDE, square_tile, tall_tile

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

TILES = (
    2  # version of `simd_products.py`: another text of this file is compiled again, not read from the cache
)
MINUS_ZERO = -(2**31)  # bit pattern
LOW = 2**32 - 1  # the low half of a key holds the row
MIN_SLACK = 64  # free places for new keys before the top k are selected again, at least


def scan(vectors: Floats, queries: Floats, k: int, exclude: Integers) -> tuple[Integers, Floats]:
    """Rows and products [B, k] of the k <= N best of `vectors` [N, D] for `queries` [B, D], as in `search`."""
    if vectors.shape[1] < LANES:
        vectors, queries = _zero_padded(vectors), _zero_padded(queries)
    found: tuple[Integers, Floats] = _scan(
        vectors, queries, k, np.sort(exclude, axis=1) if exclude.shape[1] else exclude
    )
    return found


def _zero_padded(vectors: Floats) -> Floats:
    wide = np.zeros((len(vectors), LANES), np.float32)
    wide[:, : vectors.shape[1]] = vectors
    return wide


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@compiled
def _scan(vectors, queries, k, exclude):  # type: ignore[no-untyped-def]
    """`keys` [B, slots] holds the running best of each query, of which `fill` [B] slots are used."""
    count, n = len(queries), len(vectors)
    side = 1 if count == 1 else SIDE
    padded, thresholds = padded_queries(queries, side), _thresholds(count, side)
    keys, fill = np.empty((count, k + max(k, MIN_SLACK)), np.int64), np.zeros(count, np.int64)
    whole = n - n % LANES
    if side == 1:
        _tall(vectors, whole, 0, n, padded, thresholds, k, exclude, keys, fill)
        _tall(_tail(vectors), LANES, whole, n, padded, thresholds, k, exclude, keys, fill)
    else:
        _square(vectors, whole, 0, n, padded, thresholds, k, exclude, keys, fill)
        _square(_tail(vectors), LANES, whole, n, padded, thresholds, k, exclude, keys, fill)
    rows, scores = np.empty((count, k), np.int64), np.empty((count, k), np.float32)
    for query in range(count):
        write_best(keys[query], fill[query], rows[query], scores[query])
    return rows, scores


@compiled
def padded_queries(queries, side):  # type: ignore[no-untyped-def]
    """Queries as tiles read them: a multiple of `side` rows, each in steps of LANES floats.

    The last step pairs with the last LANES floats of a vector; floats already read by an earlier step are zero there.
    A query with a non-finite value becomes NaN, for which nothing is found.
    """
    count, width = queries.shape
    steps = -(-width // LANES)
    wide = np.zeros((-(-count // side) * side, steps * LANES), np.float32)
    whole = (steps - 1) * LANES
    wide[:count, :whole] = queries[:, :whole]
    wide[:count, steps * LANES - (width - whole) :] = queries[:, whole:]
    for query in range(count):
        if not np.isfinite(queries[query]).all():
            wide[query] = np.nan
    return wide


@compiled
def _thresholds(count, side):  # type: ignore[no-untyped-def]
    """-inf for every query, +inf for padding rows, which then accept nothing."""
    thresholds = np.full((-(-count // side), LANES), np.inf, np.float32)
    for query in range(count):
        _set_threshold(thresholds, side, query, np.float32(-np.inf))
    return thresholds


@compiled
def _tail(vectors):  # type: ignore[no-untyped-def]
    """The last N % LANES vectors, zero-padded to one tile [LANES, D]."""
    tail = np.zeros((LANES, vectors.shape[1]), np.float32)
    rest = len(vectors) % LANES
    tail[:rest] = vectors[len(vectors) - rest :]
    return tail


@compiled
def _tall(vectors, stop, first, n, queries, thresholds, k, exclude, keys, fill):  # type: ignore[no-untyped-def]
    """Scan vectors up to `stop` for one query; the first has row `first`, rows from n on do not exist."""
    out = np.empty(LANES, np.float32)
    for row in range(0, stop, LANES):
        above = tall_tile(vectors, row, queries, 0, thresholds, out)
        if above:
            for lane in range(LANES):
                if above >> lane & 1 and first + row + lane < n:
                    _insert(out[lane], first + row + lane, 0, 1, thresholds, k, exclude, keys, fill)


@compiled
def _square(vectors, stop, first, n, queries, thresholds, k, exclude, keys, fill):  # type: ignore[no-untyped-def]
    """As `_tall`, for several queries."""
    out = np.empty(LANES, np.float32)
    for row in range(0, stop, SIDE):
        for query in range(0, len(queries), SIDE):
            above = square_tile(vectors, row, queries, query, thresholds, out)
            if above:
                for lane in range(LANES):
                    here = first + row + lane % SIDE
                    if above >> lane & 1 and here < n:
                        _insert(
                            out[lane], here, query + lane // SIDE, SIDE, thresholds, k, exclude, keys, fill
                        )


@compiled
def _insert(score, row, query, side, thresholds, k, exclude, keys, fill):  # type: ignore[no-untyped-def]
    """Add a product above the threshold; when the slots are full, keep the k best and raise it to the k-th."""
    threshold = thresholds[query // side, (query % side) * (LANES // side)]
    if score <= threshold or is_excluded(exclude[query], row):
        return
    own = keys[query]
    own[fill[query]] = key_of(score, row)
    fill[query] += 1
    if fill[query] == len(own):
        _set_threshold(thresholds, side, query, score_of(select(own, k)))
        fill[query] = k


@compiled
def _set_threshold(thresholds, side, query, threshold):  # type: ignore[no-untyped-def]
    """Set the threshold of a query in all its lanes of a tile."""
    lanes = LANES // side
    begin = (query % side) * lanes
    thresholds[query // side, begin : begin + lanes] = threshold


@compiled
def is_excluded(exclude, row):  # type: ignore[no-untyped-def]
    """Binary search for `row` in ascending rows."""
    low, high = 0, len(exclude)
    while low < high:
        middle = (low + high) // 2
        if exclude[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low < len(exclude) and exclude[low] == row


@compiled
def key_of(score, row):  # type: ignore[no-untyped-def]
    """An integer key in the order of (product, lower row); rows are distinct, so keys are."""
    bits = np.int64(np.float32(score).view(np.int32))
    bits = np.int64(0) if bits == MINUS_ZERO else bits
    bits = bits if bits >= 0 else bits ^ 0x7FFFFFFF
    return (bits << 32) + LOW - row


@compiled
def score_of(key):  # type: ignore[no-untyped-def]
    bits = key >> 32
    return np.int32(bits if bits >= 0 else bits ^ 0x7FFFFFFF).view(np.float32)


@compiled
def select(keys, k):  # type: ignore[no-untyped-def]
    """The k-th largest key, moved with all larger ones to the front (Hoare's quickselect)."""
    low, high = 0, len(keys) - 1
    while low < high:
        pivot, left, right = keys[(low + high) // 2], low, high
        while left <= right:
            while keys[left] > pivot:
                left += 1
            while keys[right] < pivot:
                right -= 1
            if left <= right:
                keys[left], keys[right] = keys[right], keys[left]
                left, right = left + 1, right - 1
        if right < k - 1 < left:
            break
        low, high = (low, right) if k - 1 <= right else (left, high)
    return keys[k - 1]


@compiled
def write_best(keys, fill, rows, scores):  # type: ignore[no-untyped-def]
    """Write the best keys as rows and products, best first, then -1 and -inf."""
    best = np.sort(keys[:fill])
    for place in range(len(rows)):
        if place < fill:
            key = best[fill - 1 - place]
            rows[place], scores[place] = LOW - (key & LOW), score_of(key)
        else:
            rows[place], scores[place] = -1, -np.inf
