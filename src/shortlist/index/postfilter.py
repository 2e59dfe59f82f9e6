"""What is left of what an index has found: without the excluded, best first; compiled, for a request waits for it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.index.topk_kernel import compiled, is_excluded, key_of, tell

Floats = NDArray[np.float32]
Wholes = NDArray[np.int64]


def prepared(queries: Floats, exclude: Wholes, k: int, n_items: int) -> tuple[Wholes, Wholes, Wholes]:
    """For `queries` [B, D]: what not to find [B, H], how many to ask for [B], and how many there are to find [B].

    Rows to exclude come rising, each once, then n_items. Both numbers follow from a query and its own rows alone, so
    that its answer does not depend on the batch. Who has nothing to exclude asks for k; all others for a power of two,
    so that few differ. A query that is not all finite numbers asks for none.
    """
    found: tuple[Wholes, Wholes, Wholes] = _prepared(queries, exclude, k, n_items)
    return found


def sift(
    found: tuple[Any, Any], at: Wholes, met: Wholes, wanted: Wholes, best: tuple[Wholes, Floats]
) -> Wholes:
    """Put the best of what was found [M, *] for the queries `at` [M] in their places of `best` [B, k]; who lacks some.

    Equal products are ordered by row; what is no number is not found. Past the last stand -1 and -inf.
    """
    lacking: Wholes = _sift(*found, at, met, wanted, *best)
    return lacking


@compiled
def _prepared(queries, exclude, k, n_items):  # type: ignore[no-untyped-def]
    count = len(queries)
    met = np.full(exclude.shape, n_items, np.int64)
    sizes, wanted = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for query in range(count):
        own = _distinct(exclude[query], n_items, met[query])
        wanted[query] = min(k, n_items - own)
        if np.isfinite(queries[query]).all():
            sizes[query] = min(_rounded(k + own) if own else k, n_items)
    return met, sizes, wanted


@compiled
def _distinct(rows, n_items, out):  # type: ignore[no-untyped-def]
    """Write the rows 0..N-1 among `rows` to `out`, rising, each once; how many they are."""
    own, last = 0, -1
    for row in np.sort(rows):
        if last < row < n_items:
            out[own] = last = row
            own += 1
    return own


@compiled
def _rounded(number):  # type: ignore[no-untyped-def]
    """The power of two from `number` on."""
    power = 1
    while power < number:
        power *= 2
    return power


@compiled
def _sift(found, products, at, met, wanted, rows, scores):  # type: ignore[no-untyped-def]
    lacking, lack = np.empty(len(at), np.int64), 0
    keys = np.empty(found.shape[1], np.int64)
    for place, query in enumerate(at):
        fill = 0
        for row, score in zip(found[place], products[place]):  # noqa: B905
            if row >= 0 and score > -np.inf and not is_excluded(met[query], row):
                keys[fill] = key_of(score, row)
                fill += 1
        tell(keys, fill, rows[query], scores[query])
        if fill < wanted[query]:
            lacking[lack] = query
            lack += 1
    return lacking[:lack]
