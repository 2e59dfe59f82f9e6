"""Which items a user interacts with from a position of the log on: they are no negatives of an instance there."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions


@dataclass(frozen=True, eq=False)
class LaterItems:
    """The last position at which each user interacted with each item, sorted by user and item."""

    users: Tensor  # [E] the user of every event
    pairs: Tensor  # [P] user row * n_items + item row, sorted, each pair once
    last: Tensor  # [P] the position of the last event of a pair
    n_items: int

    @classmethod
    def of(cls, events: Interactions, device: torch.device | str = "cpu") -> Self:
        """From all events of the users."""
        keys = events.users.astype(np.int64) * events.n_items + events.items
        order = np.argsort(keys, kind="stable")  # events of a pair stay in the order of time
        ordered = keys[order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)]
        parts = events.users.astype(np.int64), ordered[is_last], order[is_last].astype(np.int64)
        users, pairs, last = (torch.from_numpy(one).to(device) for one in parts)
        return cls(users, pairs, last, events.n_items)

    def among(self, items: Tensor, ends: Tensor) -> Tensor:
        """Whether items [B, M] occur at or after the position `ends` [B] in the history of that event's user [B, M].

        It needs no copy from the device, so that a training step with it can be recorded.
        """
        keys = self.users[ends][:, None] * self.n_items + items
        at = torch.searchsorted(self.pairs, keys).clamp(max=len(self.pairs) - 1)
        return (self.pairs[at] == keys) & (self.last[at] >= ends[:, None]) & (items >= 0)
