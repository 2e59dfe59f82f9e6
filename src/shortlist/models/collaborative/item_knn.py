"""Item-kNN: every item of a history speaks for the items most like it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import Model, ModelConfig, once

PLACES = 64  # of a history at a time: what all of a long one say at once is too much


@dataclass(frozen=True)
class ItemKNNConfig(ModelConfig):
    """How many neighbours an item has at most; every item of a history counts."""

    max_history: int = 10_000
    neighbours: int = 20


class ItemKNN(Model):
    """The sum over a history of likenesses, each item's few best alone: memory grows with items, not with pairs.

    What no neighbour speaks for stands below all else, by popularity; so does the answer for an empty history.
    """

    Config = ItemKNNConfig
    config: ItemKNNConfig

    def __init__(self, config: ItemKNNConfig) -> None:
        super().__init__(config)
        shape = (config.n_items, config.neighbours)
        self.rows = nn.Parameter(torch.full(shape, -1, dtype=torch.int64), requires_grad=False)  # -1 = none
        self.likeness = nn.Parameter(torch.zeros(shape), requires_grad=False)
        self.share = nn.Parameter(torch.zeros(config.n_items), requires_grad=False)  # of events

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = once(self.read(history))  # what is met twice speaks once
        found = self.likeness.new_zeros(len(history), self.config.n_items + 1)
        for some in torch.split(history, PLACES, dim=1):  # [U, <= PLACES]
            known, there = some.clamp(min=0), (some >= 0)[..., None]
            rows = self.rows[known]  # [U, K, M]
            at = torch.where((rows < 0) | ~there, self.config.n_items, rows)
            found.scatter_add_(1, at.flatten(1), self.likeness[known].flatten(1))  # what is not there: last
        # The share of all events is below every likeness that counts: it orders what nobody speaks for.
        return found[:, :-1] + 1e-6 * self.share
