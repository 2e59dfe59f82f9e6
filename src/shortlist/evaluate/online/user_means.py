"""Means over evaluated events, and over their users, with bootstrap intervals over users."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.metrics.estimate import DRAWS, MIN_USERS, Estimate, resampled

ENDS = (0.025, 0.975)  # of an interval of 95 %

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UserMeans:
    """Means of one column of values per event; intervals of 95 %, none for fewer than 30 users."""

    by_event: Estimate  # every event has the same weight
    by_user: Estimate  # every user has the same weight
    events: int
    users: int

    @property
    def few(self) -> bool:
        """Whether there are too few users for an interval."""
        return self.users < MIN_USERS


def user_means(
    users: NDArray[np.int64], values: Mapping[str, Floats], seed: int = 0, samples: int = DRAWS
) -> dict[str, list[UserMeans]]:
    """Means of the columns of named values [n, M]; users [n] are ascending, and resampled with all of their events.

    The same seed and number of users give the same samples. An event with a NaN is left out of the values of that name.
    """
    known = {name: ~np.isnan(columns).any(1) for name, columns in values.items()}
    found: dict[str, list[UserMeans]] = {}
    for name, mask in known.items():
        if name in found:
            continue
        # Values of the same events share one set of bootstrap samples.
        same = [other for other in values if np.array_equal(known[other], mask)]
        means = _means(
            users[mask], np.concatenate([values[other][mask] for other in same], axis=1), seed, samples
        )
        for other in same:
            width = values[other].shape[1]
            found[other], means = means[:width], means[width:]
    return {name: found[name] for name in values}


def _means(users: NDArray[np.int64], values: Floats, seed: int, samples: int) -> list[UserMeans]:
    """Means of each column of `values` [n, M]."""
    if not len(users):
        return [UserMeans(Estimate(None), Estimate(None), 0, 0)] * values.shape[1]
    first = np.flatnonzero(np.diff(users, prepend=-1))
    counts = np.diff(first, append=len(users)).astype(np.float64)[:, None]  # [U, 1] events of each user
    sums = np.add.reduceat(values, first)  # [U, M]
    ones = np.ones_like(counts)
    tops, bottoms = np.hstack([sums, sums / counts]), np.hstack([counts, ones])
    estimates = _ratios(tops, bottoms, seed, samples)
    columns = zip(estimates[: values.shape[1]], estimates[values.shape[1] :], strict=True)
    return [UserMeans(by_event, by_user, len(users), len(first)) for by_event, by_user in columns]


def _ratios(tops: Floats, bottoms: Floats, seed: int, samples: int) -> list[Estimate]:
    """Sums of the first half of `tops` [U, 2M] over that of bottoms[:, 0], of the second half over bottoms[:, 1]."""
    half = tops.shape[1] // 2
    means = tops.sum(0) / bottoms.sum(0).repeat(half)
    if len(tops) < MIN_USERS:
        return [Estimate(float(mean)) for mean in means]
    sums = resampled(np.hstack([tops, bottoms]), seed, samples)
    low, high = np.quantile(sums[:, : 2 * half] / sums[:, 2 * half :].repeat(half, axis=1), ENDS, axis=0)
    return [Estimate(*map(float, one)) for one in zip(means, low, high, strict=True)]
