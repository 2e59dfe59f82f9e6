"""EASE: linear item-item weights applied to the items of a history (Steck, 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import Model, ModelConfig


@dataclass(frozen=True)
class EASEConfig(ModelConfig):
    """EASE reads the whole history."""

    max_history: int = 10_000


class EASE(Model):
    """Linear item-item weights in closed form: scores are the sum of the rows of the history's items.

    An empty history gets the popularity-weighted mean of all rows.
    """

    Config = EASEConfig
    config: EASEConfig

    def __init__(self, config: EASEConfig) -> None:
        super().__init__(config)
        self.weights = nn.Parameter(torch.zeros(config.n_items, config.n_items), requires_grad=False)
        self.default_scores = nn.Parameter(torch.zeros(config.n_items), requires_grad=False)

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        items = self.multi_hot(self.read(history))  # [U, N]
        scores = items @ self.weights
        return torch.where(items.any(1, keepdim=True), scores, self.default_scores)

    def history_similarities(self, history: Tensor, rows: Tensor) -> Tensor | None:
        """The weights from the items of the history to the given ones."""
        return self.weights[history[:, None, :], rows[:, :, None]]

    def multi_hot(self, history: Tensor) -> Tensor:
        """1 for every item of a history [U, N]."""
        items = self.weights.new_zeros(len(history), self.config.n_items + 1)  # the last column takes padding
        items.scatter_(1, torch.where(history < 0, self.config.n_items, history), 1.0)
        return items[:, :-1]
