"""What a cell keeps of the ranks of its events: sums for every user, and curves with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.activity import is_active
from shortlist.errors import ArtifactError
from shortlist.evaluate.online import OnlineRanks, OnlineTest
from shortlist.evaluate.online.segments import TRAIN_BINS
from shortlist.evaluate.online.user_means import UserMeans, user_means
from shortlist.evaluate.online.values import KINDS, event_values, metric_names
from shortlist.metrics.estimate import Estimate, shares
from shortlist.metrics.power_law import fit_power_law

K = 10  # of recall
COLUMNS = tuple(f"{metric}, {kind}" for kind in KINDS for metric in metric_names(K))
DRAWN = f", {KINDS[2]}"
PRIMARY = COLUMNS[0]  # reciprocal rank among all items
EXCL = COLUMNS[2]  # without consumed items
SEGMENTS = ("all", "new", "inactive", "active")
EVENTS = (1, 2, 4, 11, 21, 51, 101, 201, 501)  # first event number of each bin: after 0, 1, 3, 10, .. events
GAINS = (1, 2, 4, 11)  # event numbers of the same new users: after 0, 1, 3 and 10 events
TAILS = (1, 20, 50)  # least training events of a fitted power law
SURVIVORS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)  # training events
STEPS = (0, 1, 6, 11, 21, 51, 101, 201, 501)  # first number of events since the base of each bin

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class UserSums:
    """Sums over the evaluated events of every user; rows of one place and seed are the same users."""

    train_counts: Floats  # [U] T
    events: Floats  # [U]
    drawn: Floats  # [U] events with drawn negatives
    sums: Floats  # [U, columns]

    @classmethod
    def of(cls, ranks: OnlineRanks, test: OnlineTest) -> "UserSums":
        """The sums of all metrics of a test."""
        values = np.concatenate(list(event_values(ranks, K).values()), axis=1)  # [n, columns]
        first = np.flatnonzero(np.diff(test.users, prepend=-1))
        counts = np.diff(first, append=len(test)).astype(np.float64)
        drawn = np.add.reduceat(~np.isnan(ranks.sampled), first).astype(np.float64)
        sums = np.add.reduceat(np.nan_to_num(values), first)
        return cls(test.train_counts[test.users[first]].astype(np.float64), counts, drawn, sums)

    @classmethod
    def read(cls, tensor: Tensor) -> "UserSums":
        """The sums from the tensor of a cell."""
        width = 3 + len(COLUMNS)
        if tensor.ndim != 2 or tensor.shape[1] != width:
            shape = list(tensor.shape)
            raise ArtifactError(f"cache: expected a tensor of {width} columns, got {shape}; remove the file")
        values = tensor.double().numpy()
        return cls(values[:, 0], values[:, 1], values[:, 2], values[:, 3:])

    def tensor(self) -> Tensor:
        """All columns [U, 3 + columns], float32."""
        columns = np.column_stack([self.train_counts, self.events, self.drawn, self.sums])
        return torch.from_numpy(columns.astype(np.float32))

    def segment(self, name: str, threshold: int) -> Bools:
        """The users of all, new, inactive or active events, or of a bin of T [U]."""
        active, new = is_active(self.train_counts, threshold), self.train_counts == 0
        masks = {"all": np.ones_like(new), "new": new, "inactive": ~active & ~new, "active": active}
        return np.asarray(masks[name])

    def column(self, name: str) -> Floats:
        """The sums of one metric [U]."""
        return np.asarray(self.sums[:, COLUMNS.index(name)])

    def counts(self, name: str) -> Floats:
        """The number of events that a metric is the mean of [U]."""
        return self.drawn if name.endswith(DRAWN) else self.events


def mean_of(sums: UserSums, users: Bools, column: str) -> float | None:
    """The mean over the events of some users; None where no negatives were drawn for them."""
    count = float(sums.counts(column)[users].sum())
    return float(sums.column(column)[users].sum()) / count if count else None


def segment_means(sums: UserSums, threshold: int) -> dict[str, list[float | None]]:
    """The reciprocal rank in every segment, among all items and without consumed ones."""
    return {
        name: [mean_of(sums, sums.segment(name, threshold), column) for column in (PRIMARY, EXCL)]
        for name in SEGMENTS
        if sums.segment(name, threshold).any()
    }


def estimate(sums: UserSums, users: Bools, column: str) -> Estimate:
    """The mean over the events of some users, with its interval over users."""
    return shares(sums.column(column)[users][:, None], sums.counts(column)[users])[0]


def by_train_bins(sums: UserSums, column: str = PRIMARY) -> list[dict[str, Any]]:
    """The mean over events and over users, by bins of T."""
    place = np.searchsorted(TRAIN_BINS, sums.train_counts, side="right") - 1
    found = []
    for number, first in enumerate(TRAIN_BINS):
        users = place == number
        if not users.any():
            continue
        value, per_user = estimate(sums, users, column), sums.column(column)[users] / sums.events[users]
        events = int(sums.events[users].sum())
        found.append({"first": first, "users": int(users.sum()), "events": events, "mean": value.mean})
        found[-1] |= {"low": value.low, "high": value.high, "by user": float(per_user.mean())}
    return found


def curve(
    values: Floats, users: NDArray[np.int64], numbers: NDArray[np.int64], starts: Sequence[int]
) -> list[dict[str, Any]]:
    """Means of values [n] of ascending users by bins of a number [n], with intervals over users."""
    place, found = np.searchsorted(starts, numbers, side="right") - 1, []
    for number, first in enumerate(starts):
        inside = place == number
        if inside.any():
            means = user_means(users[inside], {"": values[inside, None]})[""][0]
            found.append({"first": int(first), **_plain(means)})
    return found


def curves(
    ranks: OnlineRanks, test: OnlineTest, steps: NDArray[np.int64] | None
) -> Mapping[str, list[dict[str, Any]]]:
    """Reciprocal ranks of users who were never seen by the number of the event, and by steps since the base."""
    values = 1 / np.stack([ranks.raw, ranks.excl], axis=1)
    new = test.train_counts[test.users] == 0
    found = {}
    for at, kind in enumerate(KINDS[:2]):
        if new.any():
            numbers = test.event_numbers[new]
            found[f"new users, {kind}"] = curve(values[new, at], test.users[new], numbers, EVENTS)
        if steps is not None and (steps >= 0).any():
            own = steps >= 0
            found[f"steps since base, {kind}"] = curve(values[own, at], test.users[own], steps[own], STEPS)
    return found


def new_user_gains(ranks: OnlineRanks, test: OnlineTest) -> Mapping[str, list[dict[str, Any]]]:
    """Reciprocal ranks of never-seen users who have all events of GAINS, and gains over their first one, by kind.

    Every number is of the same users, one event each, with intervals over them.
    """
    new = (test.train_counts[test.users] == 0) & np.isin(test.event_numbers, GAINS)
    counts = np.bincount(test.users[new], minlength=test.events.n_users)
    rows = np.flatnonzero(new & (counts[test.users] == len(GAINS)))
    if not len(rows):
        return {}
    found = {}
    for kind, own in zip(KINDS[:2], (ranks.raw, ranks.excl), strict=True):
        values = (1 / own[rows]).reshape(-1, len(GAINS))  # [U, numbers]
        means = values.mean(0)
        gains = shares(values - values[:, :1], np.ones(len(values)))
        found[kind] = [
            {
                "first": first,
                "users": len(values),
                "mean": mean,
                "gain": one.mean,
                "low": one.low,
                "high": one.high,
            }
            for first, mean, one in zip(GAINS, means.tolist(), gains, strict=True)
        ]
    return found


def activity(train_counts: NDArray[np.int64]) -> dict[str, Any]:
    """The share of users with at least T training events, and exponents of power laws fitted to the tails of T."""
    known = train_counts[train_counts > 0]
    survival = [[least, float((known >= least).mean())] for least in SURVIVORS if (known >= least).any()]
    tails = [fit_power_law(known, least) for least in TAILS if (known > least).any()]
    return {"survival": survival, "exponents": [[one.least, one.alpha, one.users] for one in tails]}


def _plain(means: UserMeans) -> dict[str, Any]:
    event = means.by_event
    return {
        "users": means.users,
        "events": means.events,
        "mean": event.mean,
        "low": event.low,
        "high": event.high,
    }
