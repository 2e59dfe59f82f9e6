"""Split a budget of candidates over nominators, by the ranks that their lists give the positives of a log."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.coverage import (
    Floats,
    Ints,
    checked_ranks,
    checked_segments,
    covered,
    found_by_any,
    per_segment,
)
from shortlist.metrics.nomination.terms import Lists, Terms

FLOOR = 5  # least limit of a nominator that finds a positive


@dataclass(frozen=True, eq=False)
class Allocation:
    """Slots of each nominator in each segment, and what they cover of the positives they were fitted on."""

    limits: Ints  # [G, N]
    budget: int
    coverage: float
    by_segment: Floats  # [G], NaN without positives
    positives: Ints  # [G]

    def of(self, segment: int) -> Ints:
        """The slots of each nominator in a segment [N]."""
        return np.asarray(self.limits[segment], np.int64)


def allocate(
    rank: ArrayLike,
    budget: int,
    *,
    segments: ArrayLike | None = None,
    n_segments: int | None = None,
    weights: ArrayLike | None = None,
    block: int = 10,
    floor: int | Sequence[int] = FLOOR,
    shrink: float = 500.0,
    most: int | Sequence[int] | None = None,
    lists: Lists | None = None,
    costs: ArrayLike | None = None,
    latency: float | None = None,
) -> Allocation:
    """Limits that cover the most positives with `budget` slots per request: greedy by blocks, then exchanges.

    `segments` [P] gives each segment limits of its own. The coverage of a segment with n positives is shrunk towards
    that of all with the weight of `shrink` positives, so a segment without positives has the limits of all. Every
    nominator that finds a positive has at least `floor` slots, or its own entry of it; one that finds none has none.
    `weights` [P] are what the positives count, by default 1; 1 over the positives of the request makes the coverage a
    mean recall. `most` is the length of the lists.

    With `lists`, all candidates of some requests, the budget counts distinct candidates per request in place of slots.
    With `costs` [N, 2], the milliseconds of a call and of a slot, and `latency`, limits are chosen by coverage per
    millisecond and add up to the budget at most.
    """
    ranks = checked_ranks(rank)
    own, count = checked_segments(segments, len(ranks), n_segments)
    weight = _checked_weights(weights, len(ranks))
    if not 0 <= shrink < float("inf"):
        raise ConfigError(f"shrink: expected a finite number of positives from 0, got {shrink}")
    terms = Terms.of(ranks, budget, block, floor, most, lists, costs, latency)
    whole = terms.split(ranks, weight / weight.sum())
    sizes = np.bincount(own, weight, count)
    limits = np.stack(
        [
            terms.split(ranks, weight * ((own == row) + shrink / weight.sum()) / (size + shrink), row)
            if size and count > 1
            else whole
            for row, size in enumerate(sizes)
        ]
    )
    found = found_by_any(covered(ranks, limits, own))
    share = float(weight @ found / weight.sum())
    return Allocation(
        limits, budget, share, per_segment(found, own, count, weight), np.bincount(own, minlength=count)
    )


def block_of(slots: int, most: int = 10) -> int:
    """Slots that are given away at a time: small ones for a small budget."""
    return min(most, max(1, slots // 20))


def _checked_weights(weights: ArrayLike | None, positives: int) -> Floats:
    weight = np.ones(positives) if weights is None else np.asarray(weights, np.float64)
    if weight.shape != (positives,) or not np.isfinite(weight).all() or (weight <= 0).any():
        raise ConfigError(
            f"weights: expected a number above 0 for each of {positives} positives, "
            f"got numbers of the shape {weight.shape}"
        )
    return weight
