"""What an online evaluation predicts: events, each with the history of its user before it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shortlist.data import Interactions
from shortlist.data.held_out import Positions
from shortlist.data.time_split import TimeSplit
from shortlist.data.time_split.ties import tie_starts
from shortlist.data.windows import gather
from shortlist.errors import ConfigError, DataError


@dataclass(frozen=True, eq=False)
class OnlineTest:
    """The evaluated events at `positions` of all events; row i of every result belongs to positions[i].

    An event is predicted from all earlier events of its user, whatever their part. With `block` the events of a user
    with the same time are predicted from the state before the first of them.
    """

    events: Interactions
    positions: Positions  # [n] ascending
    train_counts: NDArray[np.int64]  # [n_users] T
    seed: int = 0  # of the negatives
    block: bool = False

    def __post_init__(self) -> None:
        if not len(self.positions):
            raise DataError("online test: expected events to evaluate, got none; choose another part")
        if (np.diff(self.positions) <= 0).any() or not 0 <= self.positions[0] <= self.positions[-1] < len(
            self.events
        ):
            raise ConfigError(
                f"online test: expected ascending positions from 0 to {len(self.events) - 1}; sort them"
            )
        if len(self.train_counts) != self.events.n_users:
            raise ConfigError(
                f"online test: expected training counts of {self.events.n_users} users, got {len(self.train_counts)}"
            )

    @classmethod
    def of(cls, split: TimeSplit, part: str = "test", seed: int = 0, block: bool = False) -> "OnlineTest":
        """All events of a part of a split."""
        return cls(split.events, split.positions(part), split.train_counts, seed, block)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def n_items(self) -> int:
        return self.events.n_items

    @cached_property
    def users(self) -> NDArray[np.int64]:
        """The user of each event [n], ascending."""
        return self.events.users[self.positions].astype(np.int64)

    @cached_property
    def known_users(self) -> NDArray[np.int64]:
        """The user of each event, -1 for users without training events [n]."""
        return np.where(self.train_counts[self.users] > 0, self.users, -1)

    @cached_property
    def targets(self) -> NDArray[np.int64]:
        """The item of each event [n]."""
        return self.events.items[self.positions].astype(np.int64)

    @cached_property
    def before(self) -> Positions:
        """The position after the last event of the history of each event [n]."""
        return tie_starts(self.events)[self.positions] if self.block else self.positions

    @cached_property
    def starts(self) -> Positions:
        """The position of the first event of the user of each event [n]."""
        return self.events.starts[self.users]

    @cached_property
    def event_numbers(self) -> NDArray[np.int64]:
        """The number of each event among all events of its user, from 1 [n]."""
        return self.positions - self.starts + 1

    def histories(self, rows: Positions, width: int) -> NDArray[np.int64]:
        """The last `width` items before events [b, width], -1 = padding, first."""
        return gather(self.events, self.starts[rows], self.before[rows], width).astype(np.int64)

    def at(self, rows: Positions) -> "OnlineTest":
        """Some of the events, with the same histories and negatives."""
        return replace(self, positions=self.positions[np.sort(rows)])

    def of_users(self, count: int, seed: int = 0) -> "OnlineTest":
        """All evaluated events of at most `count` random users; a smaller sample is part of a larger one."""
        users = np.unique(self.users)
        if count < 1:
            raise ConfigError(f"online test: expected 1 or more users, got {count}")
        if count >= len(users):
            return self
        kept = np.random.default_rng(seed).permutation(users)[:count]
        return self.at(np.flatnonzero(np.isin(self.users, kept)))
