"""Items to nodes of limited room, so that no item and no node would rather have each other."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shortlist.errors import ConfigError, DataError

Floats = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]

PRIORITIES = ("count", "regret", "score")


def balanced_assign(
    scores: Floats,
    capacity: NDArray[Any],
    priority: NDArray[Any],
    group: NDArray[Any] | None = None,
    seen: NDArray[np.bool_] | None = None,
) -> Whole:
    """The candidate 0..c-1 every item gets [n], by deferred acceptance, in many groups at once.

    `scores` [n, c]: what item i would gain at each candidate of its group; never NaN. `capacity` [c] or [G, c]: how
    many items a candidate takes, 0 for one that is not there. `priority` [n] or [n, c]: whom a full candidate keeps,
    the larger first; equal ones by row. `seen` [n]: items that were not seen have no wish, and fill what the others
    left, row after row. An item prefers the lower of two candidates of equal score.

    The result is stable: where an item would gain more, the candidate is full of items it likes better. With one
    priority per item it is what serving the items in that order gives. Nothing of the size of `scores` is copied.
    """
    scores = np.ascontiguousarray(scores)
    group = np.zeros(len(scores), np.int64) if group is None else np.asarray(group, np.int64)
    room = np.array(np.atleast_2d(capacity), np.int64)  # [G, c], a copy: it is used up
    seen = np.ones(len(scores), bool) if seen is None else np.asarray(seen, bool)
    check_assignment(scores, room, np.asarray(priority), group)
    chosen = np.full(len(scores), -1, np.int64)
    wishing = np.flatnonzero(seen)
    if priority.ndim == 1:
        first = np.argsort(-np.asarray(priority, np.float64)[wishing], kind="stable")
        _serve(scores, wishing[first], group, room, chosen)
    else:
        _defer(scores, np.ascontiguousarray(priority), wishing, group, room, chosen)
    _fill(np.flatnonzero(~seen), group, room, chosen)
    return chosen


def priority_of(
    kind: str, scores: Floats, counts: NDArray[Any], capacity: NDArray[Any], group: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Who is served first [n]: the most met (`count`), who would lose most by the second best (`regret`), or who is
    happiest with the first choice (`score`, the rule of the published code, which favours items rarely met)."""
    if kind not in PRIORITIES:
        raise ConfigError(f"priority must be one of {', '.join(PRIORITIES)}, got {kind!r}")
    if kind == "count":
        return np.asarray(counts, np.float64)
    group = np.zeros(len(scores), np.int64) if group is None else np.asarray(group, np.int64)
    there = np.array(np.atleast_2d(capacity), np.int64)
    best: NDArray[np.float64] = _best_two(np.ascontiguousarray(scores), group, there)  # [n, 2]
    return best[:, 0] if kind == "score" else best[:, 0] - best[:, 1]


def check_assignment(scores: Floats, room: Whole, priority: NDArray[Any], group: Whole) -> None:
    """Refuse what does not fit together, what is no number, and groups with more items than room."""
    if scores.ndim != 2 or room.shape[1] != scores.shape[1]:
        raise DataError(
            f"assignment: scores are {scores.shape}, so capacity must be {scores.shape[1:]} per group"
        )
    if len(group) != len(scores) or priority.shape not in (scores.shape[:1], scores.shape):
        raise DataError(
            f"assignment: scores are {scores.shape}, but group {group.shape}, priority {priority.shape}"
        )
    if _any_nan(scores) or _any_nan(np.atleast_2d(priority)):
        raise DataError("assignment: a score or priority is not a number; has the model diverged?")
    if len(group) and not 0 <= group.min() <= group.max() < len(room):
        raise DataError(
            f"assignment: groups must lie in 0..{len(room) - 1}, got {group.min()}..{group.max()}"
        )
    short = np.bincount(group, minlength=len(room)) - room.sum(1)
    if len(short) and short.max() > 0:
        raise DataError(
            f"assignment: group {short.argmax()} has {short.max()} more items than room; give it room"
        )


@njit(cache=True, nogil=True)
def _any_nan(scores):  # type: ignore[no-untyped-def]
    for row in range(scores.shape[0]):
        for node in range(scores.shape[1]):
            if np.isnan(scores[row, node]):
                return True
    return False


@njit(cache=True, nogil=True)
def _serve(scores, order, group, room, chosen):  # type: ignore[no-untyped-def]
    """One after the other takes the best candidate with room."""
    for item in order:
        row, free, best = scores[item], room[group[item]], -1
        for node in range(len(row)):
            if free[node] > 0 and (best < 0 or row[node] > row[best]):
                best = node
        chosen[item] = best
        free[best] -= 1


@njit(cache=True, nogil=True)
def _fill(order, group, room, chosen):  # type: ignore[no-untyped-def]
    """One after the other takes the first candidate with room."""
    first = np.zeros(len(room), np.int64)  # per group: candidates before it are full
    for item in order:
        at = group[item]
        while room[at, first[at]] == 0:
            first[at] += 1
        chosen[item] = first[at]
        room[at, first[at]] -= 1


@njit(cache=True, nogil=True)
def _defer(scores, priority, order, group, room, chosen):  # type: ignore[no-untyped-def]
    """Items ask in the order of their wishes; a full candidate turns away the one it likes least, who asks on.

    Every candidate holds its items in a heap with that one on top. Ends with `room` less what is held.
    """
    starts = np.cumsum(room.ravel()).reshape(room.shape) - room  # where the heap of a candidate begins
    held = np.empty(room.sum(), np.int64)
    count = np.zeros_like(room)
    for newcomer in order:
        item = newcomer
        while True:
            at = group[item]
            node = _next(scores[item], room[at], chosen[item])
            chosen[item] = node
            heap = held[starts[at, node] : starts[at, node] + room[at, node]]
            if count[at, node] < len(heap):
                heap[count[at, node]] = item
                count[at, node] += 1
                _rise(heap, count[at, node] - 1, priority, node)
                break
            if _likes_less(heap[0], item, priority, node):
                item, heap[0] = heap[0], item
                _sink(heap, priority, node)
    room -= count


@njit(cache=True, nogil=True)
def _next(row, room, last):  # type: ignore[no-untyped-def]
    """The best candidate after `last` in the order of (score, lower index first); the best of all after -1."""
    best = -1
    for node in range(len(row)):
        if room[node] == 0 or (best >= 0 and row[node] <= row[best]):
            continue
        if last < 0 or row[node] < row[last] or (row[node] == row[last] and node > last):
            best = node
    return best


@njit(cache=True, nogil=True)
def _likes_less(one, other, priority, node):  # type: ignore[no-untyped-def]
    a, b = priority[one, node], priority[other, node]
    return a < b or (a == b and one > other)


@njit(cache=True, nogil=True)
def _rise(heap, at, priority, node):  # type: ignore[no-untyped-def]
    while at > 0 and _likes_less(heap[at], heap[(at - 1) // 2], priority, node):
        above = (at - 1) // 2
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@njit(cache=True, nogil=True)
def _sink(heap, priority, node):  # type: ignore[no-untyped-def]
    at = 0
    while 2 * at + 1 < len(heap):
        below = 2 * at + 1
        if below + 1 < len(heap) and _likes_less(heap[below + 1], heap[below], priority, node):
            below += 1
        if not _likes_less(heap[below], heap[at], priority, node):
            return
        heap[at], heap[below] = heap[below], heap[at]
        at = below


@njit(cache=True, nogil=True)
def _best_two(scores, group, room):  # type: ignore[no-untyped-def]
    """The two largest scores of each item among candidates that are there [n, 2]; an only one twice."""
    found = np.empty((len(scores), 2))
    for item in range(len(scores)):
        first = second = -np.inf
        row, there = scores[item], room[group[item]]
        for node in range(len(row)):
            if there[node] > 0 and row[node] > first:
                first, second = row[node], first
            elif there[node] > 0 and row[node] > second:
                second = row[node]
        found[item, 0] = first
        found[item, 1] = second if second > -np.inf else first
    return found
