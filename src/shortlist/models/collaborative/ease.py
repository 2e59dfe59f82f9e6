"""Item-item weights: what was met, times how much each item speaks for each other one."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import Model, ModelConfig


@dataclass(frozen=True)
class LinearConfig(ModelConfig):
    """Every item of a history counts."""

    max_history: int = 10_000


class EASE(Model):
    """Scores are the met items' rows of one dense table [N, N], summed (Steck, 2019).

    A user without history is told the mean of all rows by how often they were met: what anybody might take.
    """

    Config = LinearConfig
    config: LinearConfig

    def __init__(self, config: LinearConfig) -> None:
        super().__init__(config)
        self.weights = nn.Parameter(torch.zeros(config.n_items, config.n_items), requires_grad=False)
        self.usual = nn.Parameter(torch.zeros(config.n_items), requires_grad=False)

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        met = self.bag(self.read(history))  # [U, N]
        found = met @ self.weights
        return torch.where(met.any(1, keepdim=True), found, self.usual)

    def bag(self, history: Tensor) -> Tensor:
        """1 where an item was met [U, N]."""
        met = self.weights.new_zeros(len(history), self.config.n_items + 1)  # padding has a place of its own
        met.scatter_(1, torch.where(history < 0, self.config.n_items, history), 1.0)
        return met[:, :-1]
