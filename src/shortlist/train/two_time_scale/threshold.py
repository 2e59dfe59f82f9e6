"""The threshold of activity by validation: both recurrences predict the same events, by the activity of their users."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CANDIDATES = (5, 10, 20, 50, 100, 200, 400)
FEW_EVENTS = 200  # of validation below which nothing is chosen

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """The mean gain of vectors of their own over the common start, by bins of training events, and the threshold."""

    bins: tuple[int, ...]  # first number of training events of each bin, minus 1: users with more are in it
    gains: tuple[float, ...]
    events: tuple[int, ...]
    threshold: int | None  # None: no user is better off with a vector of their own

    @property
    def total(self) -> float:
        """The gain over all events of users above the threshold, 0 where nobody is active."""
        known = zip(self.bins, self.gains, self.events, strict=True)
        active = self.threshold is not None
        return sum(gain * count for start, gain, count in known if active and start >= (self.threshold or 0))

    def __str__(self) -> str:
        parts = zip(self.bins, self.gains, self.events, strict=True)
        return ", ".join(f">{start}: {gain:+.4f} of {count}" for start, gain, count in parts)


def candidates(lengths: NDArray[np.int64], least_users: int = 30) -> tuple[int, ...]:
    """Thresholds above which enough users have training events, ascending."""
    return tuple(one for one in CANDIDATES if int((lengths > one).sum()) >= least_users)


def choose_threshold(
    active: Floats, inactive: Floats, counts: NDArray[np.int64], bins: Sequence[int]
) -> Choice:
    """The start of the first bin from which a vector of their own is no worse in this and all larger bins.

    `active` and `inactive` [E] are the gains of the same events by both recurrences, `counts` [E] the training events
    of their users. The means of the bins are smoothed to an ascending curve first.
    """
    place = (
        np.searchsorted(np.asarray(bins), counts, side="left") - 1
    )  # bin i: bins[i] < count <= bins[i + 1]
    inside = place >= 0
    size = np.bincount(place[inside], minlength=len(bins)).astype(np.float64)
    total = np.bincount(place[inside], (active - inactive)[inside], minlength=len(bins))
    used = size > 0
    mean = np.divide(total, size, out=np.zeros(len(bins)), where=used)
    smooth = ascending(mean[used], size[used])
    good = np.flatnonzero(smooth >= 0)
    threshold = int(np.asarray(bins)[used][good[0]]) if len(good) else None
    return Choice(tuple(bins), tuple(mean.tolist()), tuple(size.astype(int).tolist()), threshold)


def ascending(values: Floats, weights: Floats) -> Floats:
    """The ascending values nearest to these in weighted squares (pool adjacent violators)."""
    blocks: list[list[float]] = []  # mean, weight, number
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            last, before = blocks.pop(), blocks[-1]
            both = before[1] + last[1]
            before[:] = [(before[0] * before[1] + last[0] * last[1]) / both, both, before[2] + last[2]]
    return np.array([mean for mean, _, number in blocks for _ in range(int(number))])
