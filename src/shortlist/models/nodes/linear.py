"""A dot product of history and node: the simplest scorer."""

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.models.nodes.scorer import NodeScorer, State, at_least_float32


class LinearState(NamedTuple):
    """The history as one vector."""

    x: Tensor  # [U, D]


class LinearScorer(NodeScorer):
    """score = <x, w>, x the normalized mean of the history vectors."""

    def prepare(self, history: Tensor) -> State:
        return LinearState(mean_vector(*self.history_vectors(history)))

    def score_vectors(self, state: State, w: Tensor) -> Tensor:
        (x,) = state
        return (w @ x[:, :, None]).squeeze(-1)  # [U, C]

    def score_all(self, state: State, rows: Tensor) -> Tensor:
        (x,) = state
        return at_least_float32(x @ self.lookup(rows).T)  # [U, C]

    def naive(self, history: Tensor, rows: Tensor) -> Tensor:
        x = mean_vector(*self.history_vectors(history))
        return at_least_float32((x[:, None] * self.lookup(rows)).sum(-1))


def mean_vector(a: Tensor, there: Tensor) -> Tensor:
    """The normalized mean [U, D] of the history vectors; 0 for an empty history."""
    total = (a * there[..., None]).sum(1)
    return F.normalize(total, dim=-1)  # the sum has the direction of the mean
