"""Slates of counted baselines, compiled: requests one after the other, without padding histories to one length."""

from typing import Any

import numpy as np
from numba import njit


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@compiled
def first_unseen(order, events, starts, cuts, k):  # type: ignore[no-untyped-def]
    """The first k items of one order [N] that are not in events[starts:cuts] of each request [C, k], -1 past them."""
    slates = np.full((len(cuts), k), -1, np.int64)
    seen = np.full(len(order), -1, np.int64)  # the last request whose history has the item
    for request in range(len(cuts)):
        for at in range(starts[request], cuts[request]):
            seen[events[at]] = request
        place = 0
        for item in order:
            if place == k:
                break
            if seen[item] != request:
                slates[request, place] = item
                place += 1
    return slates


@compiled
def next_items(table, popularity, order, backoff, events, starts, cuts, k):  # type: ignore[no-untyped-def]
    """The k best items by (count + backoff * popularity) / (total + backoff), those of the history left out [C, k].

    `table` holds the starts [N + 1], next items, counts and totals [N] of `LastClick`; `order` [N] is by popularity.
    Equal scores are ordered by row.
    """
    first, following, counts, total = table
    slates = np.full((len(cuts), k), -1, np.int64)
    scores = np.empty(k, np.float32)
    left_out = np.full(len(order), -1, np.int64)  # the last request that has seen the item, or counted it
    for request in range(len(cuts)):
        for at in range(starts[request], cuts[request]):
            left_out[events[at]] = request
        filled, whole, begin, end = 0, backoff, 0, 0
        if cuts[request] > starts[request]:
            last = events[cuts[request] - 1]
            whole, begin, end = backoff + total[last], first[last], first[last + 1]
        for at in range(begin, end):
            item = following[at]
            if left_out[item] != request:
                left_out[item] = request
                score = (counts[at] + backoff * popularity[item]) / whole
                filled = _insert(slates[request], scores, filled, item, score)
        for item in order:
            score = backoff * popularity[item] / whole
            if filled == k and score < scores[k - 1]:
                break
            if left_out[item] != request:
                filled = _insert(slates[request], scores, filled, item, score)
    return slates


@compiled
def _insert(items, scores, filled, item, score):  # type: ignore[no-untyped-def]
    """Put an item into a slate that is sorted by score, then by row; the last one leaves a full slate."""
    place = filled
    while place and (scores[place - 1] < score or (scores[place - 1] == score and items[place - 1] > item)):
        place -= 1
    if place == len(items):
        return filled
    filled = min(filled + 1, len(items))
    for at in range(filled - 1, place, -1):
        items[at], scores[at] = items[at - 1], scores[at - 1]
    items[place], scores[place] = item, score
    return filled
