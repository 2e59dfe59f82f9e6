"""A global time split where every held-out event is predicted, not only the first ones of every user."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shortlist.data.held_out import HeldOut, Positions
from shortlist.data.interactions import Interactions
from shortlist.data.split import Split, SplitSettings
from shortlist.data.time_split.ties import hash64, with_tie_order
from shortlist.errors import ConfigError, DataError

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, eq=False)
class TimeSplit:
    """All events in order, and the part of each; parts follow each other in time."""

    events: Interactions
    part: NDArray[np.int8]  # [E] row in PARTS
    settings: SplitSettings

    @cached_property
    def train(self) -> Interactions:
        """The training events."""
        return self.events.where(self.part == 0)

    @cached_property
    def train_counts(self) -> NDArray[np.int64]:
        """T of each user: the number of his training events [n_users]."""
        return np.bincount(self.events.users[self.part == 0], minlength=self.events.n_users)

    def positions(self, part: str) -> Positions:
        """Positions in `events` of a part, by user, then by time."""
        if part not in PARTS:
            raise ConfigError(f"time split: expected a part of {', '.join(PARTS)}, got {part!r}")
        return np.flatnonzero(self.part == PARTS.index(part))

    def valid_requests(self) -> HeldOut:
        """One request per user with validation events: the training events, then the validation events."""
        return self._requests(1)

    def test_requests(self) -> HeldOut:
        """One request per user with test events: the training and validation events, then the test events."""
        return self._requests(2)

    def as_split(self) -> Split:
        """The same cuts with one request per user, which is what trainers stop early by."""
        return Split(self.events, self.part == 0, self.valid_requests(), self.test_requests(), self.settings)

    def _requests(self, row: int) -> HeldOut:
        """A user's parts follow each other, so a request is a range of positions."""
        count = self.events.n_users
        before = np.bincount(self.events.users[self.part < row], minlength=count)
        within = np.bincount(self.events.users[self.part == row], minlength=count)
        users = np.flatnonzero(within)
        starts = self.events.starts[users]
        cuts = starts + before[users]
        return HeldOut(self.events, starts, cuts, cuts + within[users])


def time_split(
    events: Interactions,
    shares: Sequence[float] = (0.7, 0.1, 0.2),
    respect_ties: bool = True,
    ties: str = "hash",
    seed: int = 0,
) -> TimeSplit:
    """Cut all events by (time, tie) into training, validation and test events.

    The cuts lie after floor(share * E) events; with `respect_ties` each moves forward to the next distinct time. The
    order of events of the same time is that of a hash of user, item and seed ("hash"), or that of the log ("file").
    """
    _check_shares(shares)
    events = with_tie_order(events, ties, seed)
    counts = [int(share * len(events) + 1e-6) for share in (shares[0], shares[0] + shares[1])]
    part = _by_times(events, counts) if respect_ties else _by_counts(events, counts, ties, seed)
    if len(np.unique(part)) < len(PARTS):
        raise DataError(
            f"time split: expected events in every part, got {np.bincount(part, minlength=3).tolist()} of "
            f"{len(events):,} events; change the shares, or cut inside equal times (respect_ties=False)"
        )
    settings: SplitSettings = {
        "protocol": "time-split",
        "train": float(shares[0]),
        "valid": float(shares[1]),
        "respect_ties": respect_ties,
        "ties": ties,
        "seed": seed,
    }
    return TimeSplit(events, part, settings)


def _by_times(events: Interactions, counts: Sequence[int]) -> NDArray[np.int8]:
    """An event is after a cut if it is later than the last event before it."""
    part = np.zeros(len(events), np.int8)
    for count in counts:
        if count:
            part += events.times > np.partition(events.times, count - 1)[count - 1]
    return part


def _by_counts(events: Interactions, counts: Sequence[int], ties: str, seed: int) -> NDArray[np.int8]:
    """The first events in the order of (time, tie) are before a cut."""
    keys = hash64(events.users, events.items, seed) if ties == "hash" else np.arange(len(events))
    order = np.lexsort((keys, events.times))
    part = np.zeros(len(events), np.int8)
    for count in counts:
        part[order[count:]] += 1
    return part


def _check_shares(shares: Sequence[float]) -> None:
    # Also refuses NaN.
    if len(shares) != len(PARTS) or not (min(shares) > 0 and abs(sum(shares) - 1) <= 1e-6):
        raise ConfigError(f"time split: expected three positive shares that add up to 1, got {tuple(shares)}")
