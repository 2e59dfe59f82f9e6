"""An assignment of items to nodes, made better by exchanges until none of a kind gains."""

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
FEW = 4  # places of a candidate at most, for what it wants of every other to be kept up to date
WORTH_THREADS = 1 << 16  # scores: fewer are done before a thread has begun
FLOOR = -1e30  # a score of -inf counts as this: differences stay numbers


def improve(
    scores: Floats,
    chosen: NDArray[Any],
    capacity: NDArray[Any],
    group: NDArray[Any] | None = None,
    seen: NDArray[np.bool_] | None = None,
    sweeps: int = SWEEPS,
    slow: bool = False,
) -> Whole:
    """The candidate of every item [n], with a total score that is never lower than that of `chosen` [n].

    All is as in `balanced_assign`. First every two candidates of a group divide their items between them in the best
    way, sweep after sweep; then items change places in rings of two or three candidates while that gains. Free room
    is an item without a wish: it, and items that were not seen, give way to any other. Of equal gains the lower
    candidates', then the lower row's, is taken; exchanges that gain nothing are not made, so who is content stays.

    A sweep reads `scores` about once for pairs that changed since they last met; rings read it at most `sweeps` times
    again, and weigh c^3 rings per sweep of a group, few of which begin with a gain. Takes 8 bytes per place, and 16 for
    every two candidates of the groups that are at work. Groups do not know of each other: many are shared out among the
    cores. `slow` does without that and looks at every two candidates again, with the same result.
    """
    scores = np.ascontiguousarray(scores)
    group = np.zeros(len(scores), np.int64) if group is None else np.asarray(group, np.int64)
    seen = np.ones(len(scores), bool) if seen is None else np.asarray(seen, bool)
    size = np.bincount(group, minlength=1)
    room = np.array(np.atleast_2d(capacity), np.int64)  # [G, c]
    check_assignment(scores, room, np.zeros(len(scores)), group)
    if _any_endless(scores):
        raise DataError(
            "assignment: expected scores below infinity, got one that is; has the model diverged?"
        )
    chosen = np.array(chosen, np.int64)
    _check_chosen(chosen, room, group)
    # Room for more than all items of a group is room for all.
    room[: len(size)] = np.minimum(room[: len(size)], size[:, None])
    items, stops = np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=len(room)))
    few = 0 if slow else FEW
    threads = min(cores(), len(room)) if few and scores.size >= WORTH_THREADS else 1
    if threads <= 1:
        _improve(scores, chosen, items, stops, seen, room, sweeps, few, 0, len(room))
        return chosen
    edges = np.linspace(0, len(room), threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        work = [
            pool.submit(_improve, scores, chosen, items, stops, seen, room, sweeps, few, begin, end)
            for begin, end in pairwise(edges)
        ]
        for one in work:
            one.result()
    return chosen


def cores() -> int:
    """How many cores this process may use, at most 16."""
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
            f"assignment: candidate {at[1]} of group {at[0]} holds {held[at]}, has room for {room[at]}"
        )


@njit(cache=True, nogil=True)
def _any_endless(scores):  # type: ignore[no-untyped-def]
    for row in range(scores.shape[0]):
        for node in range(scores.shape[1]):
            if scores[row, node] == np.inf:
                return True
    return False


@njit(cache=True, nogil=True)
def _improve(scores, chosen, items, stops, seen, room, sweeps, few, begin, end):  # type: ignore[no-untyped-def]
    """Some groups, one after the other: `held` has the items of its candidates side by side, -1 for free room."""
    for at in range(begin, end):
        start, stop = stops[at - 1] if at else 0, stops[at]
        if stop > start:
            held, first = _hold(items[start:stop], chosen, room[at])
            if room[at].max() <= few:
                _few_pairs(scores, seen, held, first, sweeps)
            else:
                _pairs(scores, seen, held, first, sweeps)
            _rings(scores, seen, held, first, sweeps)
            for node in range(len(first) - 1):
                for item in held[first[node] : first[node + 1]]:
                    if item >= 0:
                        chosen[item] = node


@njit(cache=True, nogil=True)
def _hold(items, chosen, room):  # type: ignore[no-untyped-def]
    """Items by candidate, each with its free room; where the items of a candidate begin [c + 1]."""
    first = np.zeros(len(room) + 1, np.int64)
    first[1:] = np.cumsum(room)
    held = np.full(first[-1], -1, np.int64)
    fill = first[:-1] + room  # from the back: free room comes first
    for item in items[::-1]:
        fill[chosen[item]] -= 1
        held[fill[chosen[item]]] = item
    return held, first


@njit(cache=True, nogil=True)
def _gain(scores, seen, item, here, there):  # type: ignore[no-untyped-def]
    """What an item gains by going from one candidate to another."""
    if item < 0 or not seen[item]:
        return 0.0
    return max(np.float64(scores[item, there]), FLOOR) - max(np.float64(scores[item, here]), FLOOR)


@njit(cache=True, nogil=True)
def _pairs(scores, seen, held, first, sweeps):  # type: ignore[no-untyped-def]
    """Every two candidates divide their items, until no two want to, or `sweeps` times."""
    width = len(first) - 1
    changed = np.zeros(width, np.int64)  # when a candidate last changed
    met = np.full((width, width), -1, np.int64)  # when two last met
    clock = 0
    for _ in range(sweeps):
        before = clock
        for one in range(width):
            for two in range(one + 1, width):
                if met[one, two] < max(changed[one], changed[two]):
                    mine, yours = held[first[one] : first[one + 1]], held[first[two] : first[two + 1]]
                    if len(mine) and len(yours) and _divide(scores, seen, mine, yours, one, two):
                        clock += 1
                        changed[one] = changed[two] = clock
                    met[one, two] = clock
        if clock == before:
            return


@njit(cache=True, nogil=True)
def _few_pairs(scores, seen, held, first, sweeps):  # type: ignore[no-untyped-def]
    """`_pairs`, the same divisions in the same order, faster where candidates have few places."""
    width = len(first) - 1
    most, who = np.full((width, width), -np.inf), np.full((width, width), -1, np.int64)
    for node in range(width):
        _weigh(scores, seen, held, first, node, most, who)
    for _ in range(sweeps):
        calm = True
        for one in range(width):
            for two in range(one + 1, width):
                if most[one, two] + most[two, one] > 0:
                    calm = False
                    mine, yours = held[first[one] : first[one + 1]], held[first[two] : first[two + 1]]
                    _divide(scores, seen, mine, yours, one, two)
                    _weigh(scores, seen, held, first, one, most, who)
                    _weigh(scores, seen, held, first, two, most, who)
        if calm:
            return


@njit(cache=True, nogil=True)
def _divide(scores, seen, mine, yours, one, two):  # type: ignore[no-untyped-def]
    """Who gains most by leaving changes places with who gains most by coming, while both together gain.

    Most pairs gain nothing: that is seen before anything is written down.
    """
    most_out, most_back = _most(scores, seen, mine, one, two), _most(scores, seen, yours, two, one)
    if not most_out + most_back > 0:
        return False
    if len(mine) == 1 and len(yours) == 1:
        mine[0], yours[0] = yours[0], mine[0]
        return True
    out, back = _gains(scores, seen, mine, one, two), _gains(scores, seen, yours, two, one)
    leaving, coming = _willing(out, -most_back), _willing(back, -most_out)
    for turn in range(min(len(leaving), len(coming))):
        here, there = leaving[turn], coming[turn]
        if not out[here] + back[there] > 0:
            break
        mine[here], yours[there] = yours[there], mine[here]
    return True


@njit(cache=True, nogil=True)
def _most(scores, seen, items, here, there):  # type: ignore[no-untyped-def]
    """The most that one of some items gains by going from one candidate to another."""
    most = -np.inf
    for item in items:
        most = max(most, _gain(scores, seen, item, here, there))
    return most


@njit(cache=True, nogil=True)
def _gains(scores, seen, items, here, there):  # type: ignore[no-untyped-def]
    """What every one gains."""
    gains = np.empty(len(items))
    for place in range(len(items)):
        gains[place] = _gain(scores, seen, items[place], here, there)
    return gains


@njit(cache=True, nogil=True)
def _willing(gain, least):  # type: ignore[no-untyped-def]
    """Places that gain more than `least`, the most first, equal ones in their order."""
    places = np.flatnonzero(gain > least)
    return places[np.argsort(-gain[places], kind="mergesort")]


@njit(cache=True, nogil=True)
def _rings(scores, seen, held, first, sweeps):  # type: ignore[no-untyped-def]
    """Rings of two and three candidates pass one item on each, while that gains.

    A ring that gains can be begun where it has gained at every point on the way, so only those are followed.
    """
    width = len(first) - 1
    most, who = np.full((width, width), -np.inf), np.full((width, width), -1, np.int64)
    for node in range(width):
        _weigh(scores, seen, held, first, node, most, who)
    budget = sweeps * len(held)
    for _ in range(sweeps):
        calm = True
        for one in range(width):
            while budget > 0:
                two, three = _best_ring(most, one)
                if two < 0:
                    break
                calm = False
                _turn(held, who, one, two, three)
                for node in (one, two, three):
                    _weigh(scores, seen, held, first, node, most, who)
                    budget -= first[node + 1] - first[node]
        if calm or budget <= 0:
            return


@njit(cache=True, nogil=True)
def _weigh(scores, seen, held, first, node, most, who):  # type: ignore[no-untyped-def]
    """The most an item of a candidate gains by going to each other one, and the place of that item."""
    most[node] = -np.inf
    for place in range(first[node], first[node + 1]):
        item = held[place]
        for other in range(len(first) - 1):
            if other != node and first[other] < first[other + 1]:
                gain = _gain(scores, seen, item, node, other)
                if gain > most[node, other]:
                    most[node, other], who[node, other] = gain, place


@njit(cache=True, nogil=True)
def _best_ring(most, one):  # type: ignore[no-untyped-def]
    """The best ring one -> two -> three -> one, of two candidates when two = three; (-1, -1) where none gains."""
    best, found = 0.0, (-1, -1)
    for two in range(len(most)):
        if not most[one, two] > 0:
            continue
        if most[one, two] + most[two, one] > best:
            best, found = most[one, two] + most[two, one], (two, two)
        for three in range(len(most)):
            way = most[one, two] + most[two, three]
            if way > 0 and three != one and way + most[three, one] > best:
                best, found = way + most[three, one], (two, three)
    return found


@njit(cache=True, nogil=True)
def _turn(held, who, one, two, three):  # type: ignore[no-untyped-def]
    """Each candidate's item goes to the next one's place."""
    if two == three:
        here, there = who[one, two], who[two, one]
        held[here], held[there] = held[there], held[here]
        return
    a, b, c = who[one, two], who[two, three], who[three, one]
    held[a], held[b], held[c] = held[c], held[a], held[b]
