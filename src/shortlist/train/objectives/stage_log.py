"""Logged requests as plain arrays, sorted by request and stratum, so that samples are positions in one array."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import DataError

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StageLog:
    """R requests with C logged items: the last stage that each item passed, and the feedback of shown items."""

    user_id: Array  # [R] rows of users, 0 ..
    offsets: Array  # [R + 1] the items of request r are offsets[r] .. offsets[r + 1]
    item_id: Array  # [C] rows of items, 0 .. n_items
    stage: Array  # [C] S, 0 .. n_stages
    y: Array  # [C] 1, 0, or -1 = not known; read where S = n_stages only
    n_items: int
    n_stages: int
    incl_prob: Array | None = None  # [C] probability that the log kept the item; None: all were kept
    scores: Array | None = None  # float32 [C, n_stages], NaN = not scored; None: not needed
    nomination: Array | None = (
        None  # int64 [C] row of the item in a `NominationLog`, -1 = no positive feedback
    )
    strength: Array | None = None  # float32 [C] how much a positive counts; None: all are equal

    def __post_init__(self) -> None:
        """Refuse columns that do not fit together."""
        for name in ("item_id", "stage", "y", "incl_prob", "scores", "nomination", "strength"):
            column = getattr(self, name)
            if column is not None and len(column) != self.n_rows:
                raise DataError(
                    f"{name} has {len(column)} rows, but offsets end at {self.n_rows}; align the columns"
                )
        if len(self.user_id) != len(self.offsets) - 1 or np.any(np.diff(self.offsets) < 0):
            raise DataError(
                f"{len(self.user_id)} requests need {len(self.user_id) + 1} offsets that never fall"
            )
        if np.min(self.user_id, initial=0) < 0:
            raise DataError(f"user_id must not be negative, got {np.min(self.user_id)}")
        if not np.isin(self.y, (-1, 0, 1)).all():
            raise DataError("y must be 1, 0 or -1 = not known")
        _check_range("item_id", self.item_id, self.n_items)
        _check_range("stage", self.stage, self.n_stages + 1)
        if self.incl_prob is not None and not np.all((self.incl_prob > 0) & (self.incl_prob <= 1)):
            raise DataError(
                "incl_prob must lie in (0, 1]; the log must record the exact inclusion probability"
            )

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    def next_stage(self, number: int) -> int | None:
        """The first stage after stage `number` that scored items, None if there is none."""
        return next((stage for stage in self.scored if stage > number), None)

    @cached_property
    def scored(self) -> tuple[int, ...]:
        """The stages with scores; filters and selectors have none."""
        if self.scores is None:
            return ()
        return tuple((np.flatnonzero(np.isfinite(self.scores).any(0)) + 1).tolist())

    def scores_of(self, stage: int) -> Array:
        """The scores of one stage [C]."""
        assert self.scores is not None
        return self.scores[:, stage - 1]

    def standardised(self) -> "StageLog":
        """The same log; the scores of each stage have mean 0 and standard deviation 1, whatever their scale was."""
        if self.scores is None:
            return self
        scores = np.full(self.scores.shape, np.nan, np.float32)
        for stage in self.scored:
            known = np.isfinite(self.scores_of(stage))
            values = self.scores_of(stage)[known]
            spread = float(values.std(dtype=np.float64))
            scores[known, stage - 1] = (values - values.mean(dtype=np.float64)) / (spread or 1.0)
        return replace(self, scores=scores)

    @cached_property
    def request(self) -> Array:
        """The request of every row [C]."""
        return np.repeat(np.arange(len(self.user_id)), np.diff(self.offsets))

    @cached_property
    def stratum(self) -> Array:
        """S for items that were not shown, n_stages for negative feedback, n_stages + 1 for positive, -1 unknown."""
        shown, y = np.asarray(self.stage) == self.n_stages, np.asarray(self.y)
        known = np.where(y == 1, self.n_stages + 1, np.where(y == 0, self.n_stages, -1))
        return np.where(shown, known, self.stage).astype(np.int64)


def _check_range(name: str, values: Array, end: int) -> None:
    if len(values) and not (np.min(values) >= 0 and np.max(values) < end):
        raise DataError(f"{name} must lie in 0..{end - 1}, got {np.min(values)}..{np.max(values)}")


@dataclass(frozen=True, eq=False)
class Segments:
    """The rows of every stratum of every request, as positions in one order of all rows."""

    rows: Array  # [C] rows of the log, grouped by request and stratum
    starts: Array  # [R * (strata + 1)] first position of each group
    counts: Array  # [R * (strata + 1)]
    n_strata: int

    @classmethod
    def of(cls, request: Array, stratum: Array, n_requests: int, n_strata: int) -> "Segments":
        """Rows whose stratum is -1 are in no group."""
        known = np.flatnonzero(stratum >= 0)
        key = request[known] * n_strata + stratum[known]
        counts = np.bincount(key, minlength=n_requests * n_strata)
        return cls(known[np.argsort(key, kind="stable")], np.cumsum(counts) - counts, counts, n_strata)

    def draw(self, request: Array, stratum: int, count: int, rng: np.random.Generator) -> Array:
        """Distinct random rows of one stratum of each request [B, count], -1 where there are too few."""
        group = request * self.n_strata + stratum
        inside = distinct(self.counts[group], count, rng)  # [B, count]
        at = np.minimum(self.starts[group][:, None] + inside, max(len(self.rows) - 1, 0))
        return np.where(inside >= 0, self.rows[at], -1) if len(self.rows) else inside

    def counts_of(self, request: Array, stratum: int) -> Array:
        """The number of logged rows of one stratum of each request [B]."""
        return np.asarray(self.counts[request * self.n_strata + stratum])


def distinct(sizes: Array, count: int, rng: np.random.Generator) -> Array:
    """`count` distinct numbers below each size, uniform over subsets [B, count]; -1 where a size is too small.

    Floyd's algorithm: slot i draws from 0 .. size - count + i and takes its last number if the draw is taken.
    """
    chosen = np.full((len(sizes), count), -1, np.int64)
    for slot in range(count):
        last = sizes - count + slot
        drawn = (rng.random(len(sizes)) * (last + 1)).astype(np.int64)
        taken = (chosen[:, :slot] == drawn[:, None]).any(1)
        chosen[:, slot] = np.where(last < 0, -1, np.where(taken, last, drawn))
    return chosen


@dataclass(frozen=True, eq=False)
class UserItems:
    """Sets of items of users that are excluded from random items of the catalogue."""

    shifted: Array  # sorted: user * (n_items + 1) + item - (number of smaller items of the user)
    offsets: Array  # [users + 1]
    n_items: int

    @classmethod
    def of(cls, users: Array, items: Array, n_users: int, n_items: int) -> "UserItems":
        """From pairs of a user and an item; repeats count once."""
        key = np.unique(np.asarray(users, np.int64) * n_items + np.asarray(items, np.int64))
        user, item = np.divmod(key, max(n_items, 1))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=n_users))])
        smaller = np.arange(len(key)) - offsets[user]
        return cls(user * (n_items + 1) + item - smaller, offsets, n_items)

    def others(self, users: Array, count: int, rng: np.random.Generator) -> Array:
        """Uniform random items outside each user's set, with replacement [B, count]; -1 where there are none.

        The r-th item outside a sorted set p_0 < p_1 < .. is r + #{j: p_j - j <= r}.
        """
        free = self.free(users)[:, None]
        place = (rng.random((len(users), count)) * free).astype(np.int64)
        below = np.searchsorted(self.shifted, users[:, None] * (self.n_items + 1) + place, side="right")
        return np.where(free > 0, place + below - self.offsets[users][:, None], -1)

    def free(self, users: Array) -> Array:
        """The number of items outside each user's set [B]."""
        return np.asarray(self.n_items - np.diff(self.offsets)[users])
