"""Recall of the pool by nominator: alone, Shapley value, leave-one-out, and leave-one-out with the slots refilled."""

from collections.abc import Callable, Sequence

import numpy as np

from shortlist.diagnose.nominators.lists import DEEPER, NominatorLists
from shortlist.diagnose.nominators.report import NominatorShare
from shortlist.evaluate.losses import Ints
from shortlist.metrics.estimate import Estimate, Floats
from shortlist.metrics.nomination.allocate import allocate, block_of
from shortlist.metrics.nomination.coverage import ABSENT, Bools, covered

SAME = 0.005  # share of the candidates per request by which two settings may differ
ENOUGH = 5000  # pairs to fit limits to
FOLDS = 2  # halves of the users: slots are given away on one half and counted on the other


def credits_of(found: Bools) -> tuple[Floats, Floats, Floats]:
    """What each pair counts for each nominator [P, N]: alone, as a Shapley value, and where no other one finds it.

    The Shapley value of coverage has a closed form: a pair that m nominators find gives 1 / m to each of them.
    """
    times = found.sum(1, keepdims=True)
    split = np.asarray(found / np.maximum(times, 1), np.float64)
    return found.astype(np.float64), split, np.asarray(found & (times == 1), np.float64)


def found_by_any(rank: Ints, limits: Ints, segments: Ints | None = None) -> Floats:
    """1 for each pair that at least one nominator finds within its limit, else 0 [P]."""
    return np.asarray(covered(rank, limits, segments).any(1), np.float64)


def pool_recall(lists: NominatorLists, users: Ints | None = None) -> Estimate:
    """The recall of the pool at the current limits."""
    return lists.recalls(found_by_any(lists.rank, lists.limits)[:, None], users)[0]


def shares_of(
    lists: NominatorLists, users: Ints | None = None, refilled: Floats | None = None
) -> tuple[NominatorShare, ...]:
    """The part of each nominator, over all users or some; `refilled` [P, N] is what `refilled_losses` returns."""
    columns = [*credits_of(covered(lists.rank, lists.limits)), *(() if refilled is None else (refilled,))]
    found = lists.recalls(np.concatenate(columns, axis=1), users)
    count = len(lists.names)
    solo, shapley, alone, *rest = (found[at : at + count] for at in range(0, len(found), count))
    lost: Sequence[Estimate | None] = rest[0] if rest else [None] * count
    return tuple(NominatorShare(*one) for one in zip(solo, shapley, alone, lost, strict=True))


def refilled_losses(lists: NominatorLists, fold: Ints) -> Floats:
    """What the pool loses of each pair without a nominator when the others fill its places [P, N]: 1, 0 or -1.

    The others keep their limits and get as many slots as make up for its distinct candidates, where these gain most
    for the users of the other `fold` [P].
    """
    before = found_by_any(lists.rank, lists.limits)
    lost = np.zeros(lists.rank.shape)
    for number in range(len(lists.names)):
        for half in range(FOLDS):
            measured = fold == half
            limits = refilled_limits(lists, number, fold != half)
            lost[measured, number] = before[measured] - found_by_any(lists.rank[measured], limits)
    return lost


def refilled_limits(lists: NominatorLists, number: int, fitted: Bools) -> Ints:
    """Limits [N] without one nominator, and with as many candidates per request as before."""
    without = lists.limits.copy()
    without[number] = 0
    ranks = some_of(lists.rank[fitted])
    live = np.array([(one < ABSENT).any() for one in ranks.T])  # those that find any of these items
    live[number] = False
    kept, longest = without[live], lists.longest[live]
    room = min(int((longest - kept).sum()), DEEPER * int(lists.limits[number]))

    def filled(slots: int) -> Ints:
        limits = without.copy()
        total, block = int(kept.sum()) + slots, block_of(slots)
        given = {"floor": kept.tolist(), "most": longest.tolist(), "block": block}
        limits[live] = allocate(ranks[:, live], total, **given).limits[0]
        return limits

    return most_within(lists, filled, 0, room, lists.per_request(lists.limits)) if room > 0 else without


def some_of(pairs: Ints) -> Ints:
    """Pairs [P, ...] to fit limits to: all, or every other one, and so on."""
    return pairs[:: max(1, len(pairs) // ENOUGH)]


def most_within(
    lists: NominatorLists, limits_of: Callable[[int], Ints], low: int, high: int, candidates: float
) -> Ints:
    """The limits for the most slots from `low` to `high` that give at most so many distinct candidates per request."""
    best, enough = limits_of(high), candidates * (1 + SAME)
    if lists.per_request(best) <= enough:
        return best
    best = limits_of(low)
    near = max(1, (high - low) // 50)
    while high - low > near:
        middle = (low + high) // 2
        tried = limits_of(middle)
        if lists.per_request(tried) <= enough:
            low, best = middle, tried
        else:
            high = middle
    return best
