"""Scores of a world that knows the truth: the best that any model can reach."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import DataError
from shortlist.evaluate.online import OnlineTest
from shortlist.simulate.drift.world import Choice, DriftWorld

KINDS = ("dynamic", "static", "mean")


@dataclass(frozen=True, eq=False)
class Oracle:
    """The probabilities of a world: `dynamic` knows phi and w, `static` phi, and `mean` the mean of all users."""

    world: DriftWorld
    kind: str = "dynamic"
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise DataError(f"oracle: expected a kind of {', '.join(KINDS)}, got {self.kind!r}")

    def scores_at(self, test: OnlineTest, rows: NDArray[np.int64]) -> Tensor:
        """Logits of all items before the events `rows` of a test of this world [b, N]."""
        if len(test.events) != len(self.world.events):
            expected, got = len(self.world.events), len(test.events)
            raise DataError(
                f"oracle: expected a test of the {expected:,} events of its world, got {got:,} events"
            )
        vectors = self._vectors(test, rows)
        return self._choice.logits(torch.from_numpy(vectors).to(self.device))

    def _vectors(self, test: OnlineTest, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        world = self.world
        if self.kind == "mean":
            return np.repeat(world.mean[None], len(rows), axis=0)
        long = world.long[test.users[rows]]
        return long if self.kind == "static" else np.asarray(long + world.short[test.positions[rows]])

    @cached_property
    def _choice(self) -> Choice:
        tensors = (
            torch.from_numpy(one).to(self.device) for one in (self.world.item_vectors, self.world.bias)
        )
        return Choice(*tensors)
