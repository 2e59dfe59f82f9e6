"""The distinct items that users consumed before evaluated events, without a mask over the catalogue."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.data import Interactions
from shortlist.data.held_out import Positions
from shortlist.evaluate.online.online_test import OnlineTest


@dataclass(frozen=True, eq=False)
class Consumed:
    """Distinct items of users in the order of their first events: event i has items[starts[i]:stops[i]]."""

    items: NDArray[np.int32]  # [F]
    starts: Positions  # [n]
    stops: Positions  # [n]
    repeated: NDArray[np.bool_]  # [n] whether the target is one of them

    @classmethod
    def before(cls, test: OnlineTest) -> "Consumed":
        """The items before each evaluated event."""
        first = first_positions(test.events)
        new = first == np.arange(len(first))
        counts = np.concatenate([[0], np.cumsum(new)])  # first events before each position
        return cls(
            test.events.items[new],
            counts[test.starts],
            counts[test.before],
            first[test.positions] < test.before,
        )

    def counts(self, rows: Positions) -> NDArray[np.int64]:
        """Number of items of some events [b]."""
        return np.asarray(self.stops[rows] - self.starts[rows])

    def of(self, rows: Positions) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Pairs of a place in `rows` and an item, one event after the other [m], [m]."""
        counts = self.counts(rows)
        place = np.repeat(np.arange(len(rows)), counts)
        shift = self.starts[rows] - (counts.cumsum() - counts)
        return place, self.items[np.arange(len(place)) + shift[place]]


def first_positions(events: Interactions) -> NDArray[np.int64]:
    """The position of the first event with the user and item of each event [E]."""
    keys = events.users.astype(np.int64) * max(events.n_items, 1) + events.items
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = np.empty(len(keys), np.int64)
    first[order] = order[np.flatnonzero(new)[np.cumsum(new) - 1]]
    return first
