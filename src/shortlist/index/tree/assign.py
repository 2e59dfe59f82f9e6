"""Stable assignment of items to candidates of limited capacity."""

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
    """The candidate 0..c-1 of every item [n] by deferred acceptance (Gale and Shapley), for many groups at once.

    `scores` [n, c]: the score of item i at each candidate of its group; never NaN. `capacity` [c] or [G, c]: how many
    items a candidate takes, 0 for one that does not exist. `priority` [n] or [n, c]: which items a full candidate
    keeps, larger first, ties by row. `seen` [n]: unseen items have no preferences and fill the remaining places in row
    order. An item prefers the lower of two candidates of equal score.

    The result is stable: a candidate that an item prefers is full of items with higher priority. With one priority per
    item, this equals letting items choose one after another in that order. `scores` are not copied.
    """
    scores = np.ascontiguousarray(scores)
    group = np.zeros(len(scores), np.int64) if group is None else np.asarray(group, np.int64)
    room = np.array(np.atleast_2d(capacity), np.int64)  # [G, c], a copy: the kernels reduce it
    seen = np.ones(len(scores), bool) if seen is None else np.asarray(seen, bool)
    check_assignment(scores, room, np.asarray(priority), group)
    chosen = np.full(len(scores), -1, np.int64)
    choosing = np.flatnonzero(seen)
    if priority.ndim == 1:
        first = np.argsort(-np.asarray(priority, np.float64)[choosing], kind="stable")
        _assign_in_order(scores, choosing[first], group, room, chosen)
    else:
        _deferred_acceptance(scores, np.ascontiguousarray(priority), choosing, group, room, chosen)
    _fill(np.flatnonzero(~seen), group, room, chosen)
    return chosen


def priority_of(
    kind: str, scores: Floats, counts: NDArray[Any], capacity: NDArray[Any], group: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """The order in which items choose [n], larger first.

    `count`: by number of interactions. `regret`: by the loss from the best to the second best candidate. `score`: by
    the best score, the rule of the published code, which favours rare items."""
    if kind not in PRIORITIES:
        raise ConfigError(f"priority must be one of {', '.join(PRIORITIES)}, got {kind!r}")
    if kind == "count":
        return np.asarray(counts, np.float64)
    group = np.zeros(len(scores), np.int64) if group is None else np.asarray(group, np.int64)
    there = np.array(np.atleast_2d(capacity), np.int64)
    best: NDArray[np.float64] = _best_two(np.ascontiguousarray(scores), group, there)  # [n, 2]
    return best[:, 0] if kind == "score" else best[:, 0] - best[:, 1]


def check_assignment(scores: Floats, room: Whole, priority: NDArray[Any], group: Whole) -> None:
    """Refuse shapes that do not match, NaN, and groups with more items than capacity."""
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
            f"assignment: group {short.argmax()} has {short.max()} more items than capacity; raise the capacity"
        )


@njit(cache=True, nogil=True)
def _any_nan(scores):  # type: ignore[no-untyped-def]
    for row in range(scores.shape[0]):
        for node in range(scores.shape[1]):
            if np.isnan(scores[row, node]):
                return True
    return False


@njit(cache=True, nogil=True)
def _assign_in_order(scores, order, group, room, chosen):  # type: ignore[no-untyped-def]
    """Every item takes the best candidate with free capacity, in the given order."""
    for item in order:
        row, free, best = scores[item], room[group[item]], -1
        for node in range(len(row)):
            if free[node] > 0 and (best < 0 or row[node] > row[best]):
                best = node
        chosen[item] = best
        free[best] -= 1


@njit(cache=True, nogil=True)
def _fill(order, group, room, chosen):  # type: ignore[no-untyped-def]
    """Every item takes the first candidate with free capacity, in the given order."""
    first = np.zeros(len(room), np.int64)  # per group: candidates before it are full
    for item in order:
        at = group[item]
        while room[at, first[at]] == 0:
            first[at] += 1
        chosen[item] = first[at]
        room[at, first[at]] -= 1


@njit(cache=True, nogil=True)
def _deferred_acceptance(scores, priority, order, group, room, chosen):  # type: ignore[no-untyped-def]
    """Items propose in order of their scores; a full candidate rejects its lowest priority, which proposes again.

    Every candidate keeps its items in a heap with the lowest priority on top. Reduces `room` by the places taken.
    """
    starts = np.cumsum(room.ravel()).reshape(room.shape) - room  # start of the heap of a candidate
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
                _sift_up(heap, count[at, node] - 1, priority, node)
                break
            if _lower_priority(heap[0], item, priority, node):
                item, heap[0] = heap[0], item
                _sift_down(heap, priority, node)
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
def _lower_priority(item, other, priority, node):  # type: ignore[no-untyped-def]
    a, b = priority[item, node], priority[other, node]
    return a < b or (a == b and item > other)


@njit(cache=True, nogil=True)
def _sift_up(heap, at, priority, node):  # type: ignore[no-untyped-def]
    while at > 0 and _lower_priority(heap[at], heap[(at - 1) // 2], priority, node):
        above = (at - 1) // 2
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@njit(cache=True, nogil=True)
def _sift_down(heap, priority, node):  # type: ignore[no-untyped-def]
    at = 0
    while 2 * at + 1 < len(heap):
        below = 2 * at + 1
        if below + 1 < len(heap) and _lower_priority(heap[below + 1], heap[below], priority, node):
            below += 1
        if not _lower_priority(heap[below], heap[at], priority, node):
            return
        heap[at], heap[below] = heap[below], heap[at]
        at = below


@njit(cache=True, nogil=True)
def _best_two(scores, group, room):  # type: ignore[no-untyped-def]
    """The two largest scores of each item among existing candidates [n, 2]; a single one twice."""
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
