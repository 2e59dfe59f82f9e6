"""Local search for an assignment of items to candidates: exchanges until none gains."""

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shortlist.errors import DataError
from shortlist.index.tree.assign import Floats, Whole, check_assignment

SWEEPS = 10
MAX_TRACKED_CAPACITY = (
    4  # largest capacity for which the best move between every two candidates is kept up to date
)
MIN_SCORES_FOR_THREADS = 1 << 16  # smaller problems end before a thread has started
MIN_SCORE = -1e30  # stands for -inf, so that differences are finite


def improve(
    scores: Floats,
    chosen: NDArray[Any],
    capacity: NDArray[Any],
    group: NDArray[Any] | None = None,
    seen: NDArray[np.bool_] | None = None,
    sweeps: int = SWEEPS,
    slow: bool = False,
) -> Whole:
    """The candidate of every item [n], with a total score never below that of `chosen` [n].

    Arguments are as in `balanced_assign`. First every two candidates of a group divide their items optimally between
    them, sweep after sweep; then items move along cycles of two or three candidates while that gains. A free place acts
    as an item without preferences: it, and unseen items, give way to any other. Of equal gains the lower candidates',
    then the lower row's, is taken; exchanges without a gain are not made.

    A sweep reads `scores` about once for pairs that changed since their last division; cycles read it at most `sweeps`
    times again and evaluate c^3 cycles per sweep of a group, most of which are pruned. Takes 8 bytes per place and 16
    for every two candidates of the groups in progress. Groups are independent and are distributed over the cores.
    `slow` uses one core and no tracking, with the same result.
    """
    scores = np.ascontiguousarray(scores)
    group = np.zeros(len(scores), np.int64) if group is None else np.asarray(group, np.int64)
    seen = np.ones(len(scores), bool) if seen is None else np.asarray(seen, bool)
    size = np.bincount(group, minlength=1)
    room = np.array(np.atleast_2d(capacity), np.int64)  # [G, c]
    check_assignment(scores, room, np.zeros(len(scores)), group)
    if _any_infinite(scores):
        raise DataError(
            "assignment: expected scores below infinity, got an infinite one; has the model diverged?"
        )
    chosen = np.array(chosen, np.int64)
    _check_chosen(chosen, room, group)
    # A capacity above the number of items of a group is the same as that number.
    room[: len(size)] = np.minimum(room[: len(size)], size[:, None])
    items, stops = np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=len(room)))
    tracked = 0 if slow else MAX_TRACKED_CAPACITY
    threads = min(cores(), len(room)) if tracked and scores.size >= MIN_SCORES_FOR_THREADS else 1
    if threads <= 1:
        _improve(scores, chosen, items, stops, seen, room, sweeps, tracked, 0, len(room))
        return chosen
    edges = np.linspace(0, len(room), threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        futures = [
            pool.submit(_improve, scores, chosen, items, stops, seen, room, sweeps, tracked, begin, end)
            for begin, end in pairwise(edges)
        ]
        for future in futures:
            future.result()
    return chosen


def cores() -> int:
    """The number of cores this process may use, at most 16."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, 16)


def _check_chosen(chosen: Whole, room: Whole, group: Whole) -> None:
    groups, width = room.shape
    if chosen.shape != group.shape or (len(chosen) and not 0 <= chosen.min() <= chosen.max() < width):
        raise DataError(f"assignment: expected a candidate 0..{width - 1} per item, got {chosen.shape}")
    held = np.bincount(group * width + chosen, minlength=groups * width).reshape(groups, width)
    if (held > room).any():
        at = np.unravel_index((held - room).argmax(), room.shape)
        raise DataError(
            f"assignment: candidate {at[1]} of group {at[0]} holds {held[at]}, has a capacity of {room[at]}"
        )


@njit(cache=True, nogil=True)
def _any_infinite(scores):  # type: ignore[no-untyped-def]
    for row in range(scores.shape[0]):
        for node in range(scores.shape[1]):
            if scores[row, node] == np.inf:
                return True
    return False


@njit(cache=True, nogil=True)
def _improve(scores, chosen, items, stops, seen, room, sweeps, tracked, begin, end):  # type: ignore[no-untyped-def]
    """Improve some groups one after the other; `held` lists the items by candidate, -1 for a free place."""
    for at in range(begin, end):
        start, stop = stops[at - 1] if at else 0, stops[at]
        if stop > start:
            held, first = _hold(items[start:stop], chosen, room[at])
            if room[at].max() <= tracked:
                _divide_pairs_tracked(scores, seen, held, first, sweeps)
            else:
                _divide_pairs(scores, seen, held, first, sweeps)
            _rotate_cycles(scores, seen, held, first, sweeps)
            for node in range(len(first) - 1):
                for item in held[first[node] : first[node + 1]]:
                    if item >= 0:
                        chosen[item] = node


@njit(cache=True, nogil=True)
def _hold(items, chosen, room):  # type: ignore[no-untyped-def]
    """Items by candidate, free places first, and the start of every candidate [c + 1]."""
    first = np.zeros(len(room) + 1, np.int64)
    first[1:] = np.cumsum(room)
    held = np.full(first[-1], -1, np.int64)
    fill = first[:-1] + room  # from the back: free places come first
    for item in items[::-1]:
        fill[chosen[item]] -= 1
        held[fill[chosen[item]]] = item
    return held, first


@njit(cache=True, nogil=True)
def _gain(scores, seen, item, here, there):  # type: ignore[no-untyped-def]
    """The gain of moving an item from one candidate to another."""
    if item < 0 or not seen[item]:
        return 0.0
    return max(np.float64(scores[item, there]), MIN_SCORE) - max(np.float64(scores[item, here]), MIN_SCORE)


@njit(cache=True, nogil=True)
def _divide_pairs(scores, seen, held, first, sweeps):  # type: ignore[no-untyped-def]
    """Every two candidates divide their items, until no pair gains, or for `sweeps` sweeps."""
    width = len(first) - 1
    changed = np.zeros(width, np.int64)  # when a candidate last changed
    divided = np.full((width, width), -1, np.int64)  # when a pair was last divided
    clock = 0
    for _ in range(sweeps):
        before = clock
        for one in range(width):
            for two in range(one + 1, width):
                if divided[one, two] < max(changed[one], changed[two]):
                    mine, yours = held[first[one] : first[one + 1]], held[first[two] : first[two + 1]]
                    if len(mine) and len(yours) and _divide(scores, seen, mine, yours, one, two):
                        clock += 1
                        changed[one] = changed[two] = clock
                    divided[one, two] = clock
        if clock == before:
            return


@njit(cache=True, nogil=True)
def _divide_pairs_tracked(scores, seen, held, first, sweeps):  # type: ignore[no-untyped-def]
    """`_divide_pairs` with the same divisions in the same order, faster for small capacities."""
    width = len(first) - 1
    most, place = np.full((width, width), -np.inf), np.full((width, width), -1, np.int64)
    for node in range(width):
        _best_moves(scores, seen, held, first, node, most, place)
    for _ in range(sweeps):
        unchanged = True
        for one in range(width):
            for two in range(one + 1, width):
                if most[one, two] + most[two, one] > 0:
                    unchanged = False
                    mine, yours = held[first[one] : first[one + 1]], held[first[two] : first[two + 1]]
                    _divide(scores, seen, mine, yours, one, two)
                    _best_moves(scores, seen, held, first, one, most, place)
                    _best_moves(scores, seen, held, first, two, most, place)
        if unchanged:
            return


@njit(cache=True, nogil=True)
def _divide(scores, seen, mine, yours, one, two):  # type: ignore[no-untyped-def]
    """Swap the items with the largest gains of leaving on both sides, while a swap gains in total.

    Most pairs gain nothing: that is checked before anything is allocated.
    """
    most_out, most_back = _max_gain(scores, seen, mine, one, two), _max_gain(scores, seen, yours, two, one)
    if not most_out + most_back > 0:
        return False
    if len(mine) == 1 and len(yours) == 1:
        mine[0], yours[0] = yours[0], mine[0]
        return True
    out, back = _gains(scores, seen, mine, one, two), _gains(scores, seen, yours, two, one)
    leaving, coming = _by_gain(out, -most_back), _by_gain(back, -most_out)
    for swap in range(min(len(leaving), len(coming))):
        here, there = leaving[swap], coming[swap]
        if not out[here] + back[there] > 0:
            break
        mine[here], yours[there] = yours[there], mine[here]
    return True


@njit(cache=True, nogil=True)
def _max_gain(scores, seen, items, here, there):  # type: ignore[no-untyped-def]
    """The largest gain of moving one of some items from one candidate to another."""
    most = -np.inf
    for item in items:
        most = max(most, _gain(scores, seen, item, here, there))
    return most


@njit(cache=True, nogil=True)
def _gains(scores, seen, items, here, there):  # type: ignore[no-untyped-def]
    """The gain of moving each item."""
    gains = np.empty(len(items))
    for place in range(len(items)):
        gains[place] = _gain(scores, seen, items[place], here, there)
    return gains


@njit(cache=True, nogil=True)
def _by_gain(gain, least):  # type: ignore[no-untyped-def]
    """Positions with a gain above `least`, largest first, ties in order."""
    places = np.flatnonzero(gain > least)
    return places[np.argsort(-gain[places], kind="mergesort")]


@njit(cache=True, nogil=True)
def _rotate_cycles(scores, seen, held, first, sweeps):  # type: ignore[no-untyped-def]
    """Move one item along each edge of cycles of two and three candidates, while that gains.

    Every gaining cycle has a start from which all partial sums are positive, so only those are searched.
    """
    width = len(first) - 1
    most, place = np.full((width, width), -np.inf), np.full((width, width), -1, np.int64)
    for node in range(width):
        _best_moves(scores, seen, held, first, node, most, place)
    budget = sweeps * len(held)
    for _ in range(sweeps):
        unchanged = True
        for one in range(width):
            while budget > 0:
                two, three = _best_cycle(most, one)
                if two < 0:
                    break
                unchanged = False
                _rotate(held, place, one, two, three)
                for node in (one, two, three):
                    _best_moves(scores, seen, held, first, node, most, place)
                    budget -= first[node + 1] - first[node]
        if unchanged or budget <= 0:
            return


@njit(cache=True, nogil=True)
def _best_moves(scores, seen, held, first, node, most, place):  # type: ignore[no-untyped-def]
    """The largest gain of moving an item of a candidate to each other one, and the place of that item."""
    most[node] = -np.inf
    for at in range(first[node], first[node + 1]):
        item = held[at]
        for other in range(len(first) - 1):
            if other != node and first[other] < first[other + 1]:
                gain = _gain(scores, seen, item, node, other)
                if gain > most[node, other]:
                    most[node, other], place[node, other] = gain, at


@njit(cache=True, nogil=True)
def _best_cycle(most, one):  # type: ignore[no-untyped-def]
    """The best cycle one -> two -> three -> one, of two candidates if two == three; (-1, -1) where none gains."""
    best, found = 0.0, (-1, -1)
    for two in range(len(most)):
        if not most[one, two] > 0:
            continue
        if most[one, two] + most[two, one] > best:
            best, found = most[one, two] + most[two, one], (two, two)
        for three in range(len(most)):
            path = most[one, two] + most[two, three]
            if path > 0 and three != one and path + most[three, one] > best:
                best, found = path + most[three, one], (two, three)
    return found


@njit(cache=True, nogil=True)
def _rotate(held, place, one, two, three):  # type: ignore[no-untyped-def]
    """Move the item of each candidate to the place of the next one's item."""
    if two == three:
        here, there = place[one, two], place[two, one]
        held[here], held[there] = held[there], held[here]
        return
    a, b, c = place[one, two], place[two, three], place[three, one]
    held[a], held[b], held[c] = held[c], held[a], held[b]
