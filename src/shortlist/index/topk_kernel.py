"""The largest inner products on one CPU core: vectors are read once, and only what may be among the best is kept.

Memory is that of the best so far: no product is written down unless it is above the k-th best known. No lock is held
while it runs.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shortlist.index.simd_products import LANES, SIDE, square_tile, tall_tile

Floats = NDArray[np.float32]
Wholes = NDArray[np.int64]

MINUS_ZERO = -(2**31)  # the bits of it
LOW = 2**32 - 1  # room for a row below the score in a key
SPARE = 64  # places for new keys before the best are chosen again, at least


def scan(vectors: Floats, queries: Floats, k: int, exclude: Wholes) -> tuple[Wholes, Floats]:
    """Rows and products [B, k] of the k <= N best of `vectors` [N, D] for `queries` [B, D], as `search` gives them."""
    if vectors.shape[1] < LANES:
        vectors, queries = _widened(vectors), _widened(queries)
    found: tuple[Wholes, Floats] = _scan(
        vectors, queries, k, np.sort(exclude, axis=1) if exclude.shape[1] else exclude
    )
    return found


def _widened(vectors: Floats) -> Floats:
    wide = np.zeros((len(vectors), LANES), np.float32)
    wide[:, : vectors.shape[1]] = vectors
    return wide


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@compiled
def _scan(vectors, queries, k, exclude):  # type: ignore[no-untyped-def]
    """Of each query `keys` [room] are the best so far, of which `fill` are in use."""
    count, n = len(queries), len(vectors)
    side = 1 if count == 1 else SIDE
    asked, bars = laid(queries, side), _bars(count, side)
    keys, fill = np.empty((count, k + max(k, SPARE)), np.int64), np.zeros(count, np.int64)
    whole = n - n % LANES
    if side == 1:
        _tall(vectors, whole, 0, n, asked, bars, k, exclude, keys, fill)
        _tall(_tail(vectors), LANES, whole, n, asked, bars, k, exclude, keys, fill)
    else:
        _square(vectors, whole, 0, n, asked, bars, k, exclude, keys, fill)
        _square(_tail(vectors), LANES, whole, n, asked, bars, k, exclude, keys, fill)
    rows, scores = np.empty((count, k), np.int64), np.empty((count, k), np.float32)
    for query in range(count):
        tell(keys[query], fill[query], rows[query], scores[query])
    return rows, scores


@compiled
def laid(queries, side):  # type: ignore[no-untyped-def]
    """Queries as tiles read them: a multiple of `side` rows, each in steps of LANES floats.

    The last step holds what belongs to the last LANES floats of a vector; zero stands where a step before it has been.
    A query that is not all finite numbers becomes one that nothing is found for.
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
def _bars(count, side):  # type: ignore[no-untyped-def]
    """No bar yet for any query, and one that nothing is above where nobody asks."""
    bars = np.full((-(-count // side), LANES), np.inf, np.float32)
    for query in range(count):
        _raise_bar(bars, side, query, np.float32(-np.inf))
    return bars


@compiled
def _tail(vectors):  # type: ignore[no-untyped-def]
    """The last vectors, those that fill no tall tile, with zeros up to one [LANES, D]."""
    tail = np.zeros((LANES, vectors.shape[1]), np.float32)
    rest = len(vectors) % LANES
    tail[:rest] = vectors[len(vectors) - rest :]
    return tail


@compiled
def _tall(vectors, stop, first, n, queries, bars, k, exclude, keys, fill):  # type: ignore[no-untyped-def]
    """Vectors up to `stop` for one query; the row of the first is `first`, rows from n on do not exist."""
    out = np.empty(LANES, np.float32)
    for row in range(0, stop, LANES):
        above = tall_tile(vectors, row, queries, 0, bars, out)
        if above:
            for lane in range(LANES):
                if above >> lane & 1 and first + row + lane < n:
                    _take(out[lane], first + row + lane, 0, 1, bars, k, exclude, keys, fill)


@compiled
def _square(vectors, stop, first, n, queries, bars, k, exclude, keys, fill):  # type: ignore[no-untyped-def]
    """The same for many queries."""
    out = np.empty(LANES, np.float32)
    for row in range(0, stop, SIDE):
        for query in range(0, len(queries), SIDE):
            above = square_tile(vectors, row, queries, query, bars, out)
            if above:
                for lane in range(LANES):
                    here = first + row + lane % SIDE
                    if above >> lane & 1 and here < n:
                        _take(out[lane], here, query + lane // SIDE, SIDE, bars, k, exclude, keys, fill)


@compiled
def _take(score, row, query, side, bars, k, exclude, keys, fill):  # type: ignore[no-untyped-def]
    """Note a product above the bar; where there is no room left, keep the k best and raise the bar to the k-th."""
    if score <= bars[query // side, (query % side) * (LANES // side)] or is_excluded(exclude[query], row):
        return
    own = keys[query]
    own[fill[query]] = key_of(score, row)
    fill[query] += 1
    if fill[query] == len(own):
        _raise_bar(bars, side, query, _score(_kept(own, k)))
        fill[query] = k


@compiled
def _raise_bar(bars, side, query, bar):  # type: ignore[no-untyped-def]
    """A query's bar, which stands in all lanes of a tile that are its own."""
    wide = LANES // side
    begin = (query % side) * wide
    bars[query // side, begin : begin + wide] = bar


@compiled
def is_excluded(exclude, row):  # type: ignore[no-untyped-def]
    """Whether a row stands among others in rising order."""
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
    """A whole number in the order of (product, lower row); rows come once, so no two are equal."""
    bits = np.int64(np.float32(score).view(np.int32))
    bits = np.int64(0) if bits == MINUS_ZERO else bits
    bits = bits if bits >= 0 else bits ^ 0x7FFFFFFF
    return (bits << 32) + LOW - row


@compiled
def _score(key):  # type: ignore[no-untyped-def]
    bits = key >> 32
    return np.int32(bits if bits >= 0 else bits ^ 0x7FFFFFFF).view(np.float32)


@compiled
def _kept(keys, k):  # type: ignore[no-untyped-def]
    """The k-th largest key; it and those above it come first (Hoare's quickselect, largest first)."""
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
def tell(keys, fill, rows, scores):  # type: ignore[no-untyped-def]
    """The best keys as rows and products, best first, -1 and -inf where there are none."""
    best = np.sort(keys[:fill])
    for place in range(len(rows)):
        if place < fill:
            key = best[fill - 1 - place]
            rows[place], scores[place] = LOW - (key & LOW), _score(key)
        else:
            rows[place], scores[place] = -1, -np.inf
