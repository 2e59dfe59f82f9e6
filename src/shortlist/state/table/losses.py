"""How well states predict the next event of their users: losses of a sample of events, by group."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CELLS = 1 << 8  # scores per event, a small part of the time of its step; larger catalogues are sampled
MEMORY = 10_000  # about so many measured events have a weight in the mean

Integers = NDArray[np.int64]


class NextEventLosses:
    """Decaying sums of -log p(item) of events, of users who are not active and of active ones.

    p is the softmax over all items of the vector before the event. A mean that rises says that the model is out of
    date, or that an event stream is broken.
    """

    def __init__(self, items: Tensor) -> None:
        self.items = items.detach().float().cpu()  # [N, D]
        self.every = max(-(-len(self.items) // CELLS), 1)
        self.offered = 0
        self.sums, self.weights = np.zeros(2), np.zeros(2)

    def sample(self, count: int) -> Integers:
        """Which of the next events are measured: one of `every`."""
        first = -self.offered % self.every
        self.offered += count
        return np.arange(first, count, self.every)

    def add(self, vectors: Tensor, items: Integers, active: NDArray[np.bool_]) -> None:
        """Count the losses of events from the vectors before them [n, D], their items [n] and the groups [n]."""
        known = np.flatnonzero(items >= 0)
        rows = torch.from_numpy(items[known])[:, None]
        losses = -(vectors[known] @ self.items.T).log_softmax(1).gather(1, rows)[:, 0].double().numpy()
        group = active[known].astype(np.int64)
        count = np.bincount(group, minlength=2)
        kept = (1 - 1 / MEMORY) ** count
        self.sums = kept * self.sums + np.bincount(group, losses, minlength=2)
        self.weights = kept * self.weights + count

    def mean(self, active: bool) -> float:
        """The mean loss in a group, NaN without an event."""
        total, weight = self.sums[int(active)], self.weights[int(active)]
        return float(total / weight) if weight else float("nan")
