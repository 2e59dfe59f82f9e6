"""Post-filtering of search results: drop excluded rows, sort by score. Compiled, since it runs in every request."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.index.topk_kernel import compiled, is_excluded, key_of, write_best

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


def fetch_sizes(
    queries: Floats, exclude: Integers, k: int, n_items: int
) -> tuple[Integers, Integers, Integers]:
    """For `queries` [B, D]: excluded rows [B, H], how many to fetch [B], and how many there are to find [B].

    Excluded rows come back sorted, each once, then padded with n_items. Both numbers depend only on a query and its own
    excluded rows, so the answer does not depend on the batch. A query that excludes nothing fetches k, any other a
    power of two, so that there are few distinct sizes. A query with a non-finite value fetches none.
    """
    sizes: tuple[Integers, Integers, Integers] = _fetch_sizes(queries, exclude, k, n_items)
    return sizes


def postfilter(
    results: tuple[Any, Any],
    at: Integers,
    excluded: Integers,
    available: Integers,
    best: tuple[Integers, Floats],
) -> Integers:
    """Write the best `results` [M, *] of the queries `at` [M] to their rows of `best` [B, k].

    Returns the queries with fewer results than available.

    Equal scores are ordered by row; NaN is dropped. Places past the last result hold -1 and -inf.
    """
    incomplete: Integers = _postfilter(*results, at, excluded, available, *best)
    return incomplete


@compiled
def _fetch_sizes(queries, exclude, k, n_items):  # type: ignore[no-untyped-def]
    count = len(queries)
    excluded = np.full(exclude.shape, n_items, np.int64)
    sizes, available = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for query in range(count):
        own = _distinct(exclude[query], n_items, excluded[query])
        available[query] = min(k, n_items - own)
        if np.isfinite(queries[query]).all():
            sizes[query] = min(_next_power_of_two(k + own) if own else k, n_items)
    return excluded, sizes, available


@compiled
def _distinct(rows, n_items, out):  # type: ignore[no-untyped-def]
    """Write the distinct rows in 0..N-1 to `out` in ascending order; return their number."""
    own, last = 0, -1
    for row in np.sort(rows):
        if last < row < n_items:
            out[own] = last = row
            own += 1
    return own


@compiled
def _next_power_of_two(number):  # type: ignore[no-untyped-def]
    power = 1
    while power < number:
        power *= 2
    return power


@compiled
def _postfilter(found, products, at, excluded, available, rows, scores):  # type: ignore[no-untyped-def]
    incomplete, count = np.empty(len(at), np.int64), 0
    keys = np.empty(found.shape[1], np.int64)
    for place, query in enumerate(at):
        fill = 0
        for row, score in zip(found[place], products[place]):  # noqa: B905
            if row >= 0 and score > -np.inf and not is_excluded(excluded[query], row):
                keys[fill] = key_of(score, row)
                fill += 1
        write_best(keys, fill, rows[query], scores[query])
        if fill < available[query]:
            incomplete[count] = query
            count += 1
    return incomplete[:count]
