"""EASE: linear item-item weights applied to the items of a history (Steck, 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

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
        """Rows are summed one by one: for histories of less than a tenth of the items faster than a dense product."""
        ordered = self.read(history).sort(dim=1).values  # [U, K]
        is_first = ordered >= 0  # of every item: it counts once
        is_first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        counts = is_first.sum(1)
        scores = embedding_bag(ordered[is_first], self.weights, counts.cumsum(0) - counts, mode="sum")
        return torch.where(counts[:, None] > 0, scores, self.default_scores)

    def history_similarities(self, history: Tensor, rows: Tensor) -> Tensor | None:
        """The weights from the items of the history to the given ones."""
        return self.weights[history[:, None, :], rows[:, :, None]]
