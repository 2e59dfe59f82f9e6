"""The distinct items that users consumed before evaluated events, without a mask over the catalogue."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Interactions
from shortlist.evaluate.online.online_test import OnlineTest


@dataclass(frozen=True, eq=False)
class Consumed:
    """Distinct items of users, in the order of their first events; event i has counts[i] of them from starts[i] on."""

    items: Tensor  # [F]
    starts: Tensor  # [n]
    counts: Tensor  # [n]
    repeated: Tensor  # [n] whether the target is one of them

    @classmethod
    def before(cls, test: OnlineTest) -> "Consumed":
        """The items before each evaluated event."""
        first = first_positions(test.events)
        new = first == np.arange(len(first))
        counts = np.concatenate([[0], np.cumsum(new)])  # first events before each position
        return cls(
            torch.from_numpy(test.events.items[new]),
            torch.from_numpy(counts[test.starts]),
            torch.from_numpy(counts[test.before] - counts[test.starts]),
            torch.from_numpy(first[test.positions] < test.before),
        )

    def to(self, device: torch.device) -> "Consumed":
        """The same on a device."""
        if self.items.device == device:
            return self
        tensors = (self.items, self.starts, self.counts, self.repeated)
        return Consumed(*(one.to(device) for one in tensors))

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Pairs of a place in `rows` and an item, one event after the other [m], [m]."""
        counts = self.counts[rows]
        place = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
        shift = self.starts[rows] - (counts.cumsum(0) - counts)
        return place, self.items[torch.arange(len(place), device=rows.device) + shift[place]].long()


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
