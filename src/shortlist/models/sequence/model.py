"""Sequence models: after every item of a history, predict the next one."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig, VectorModel


class SequenceModel(VectorModel):
    """User vectors at every position of a history; a score is the dot product with the item embedding.

    Padding is moved to the end of a sequence, where a causal model cannot see it.
    """

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, width)
        nn.init.normal_(self.items.weight, std=width**-0.5)

    @abstractmethod
    def forward(self, history: Tensor) -> Tensor:
        """User vectors before the first item, after it, ..., after the last [U, K + 1, D].

        history [U, K], -1 = padding; only the last `max_history` items count.
        """

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """User vectors after the last item of histories [U, K], -1 = padding -> [U, D]; finite for an empty history."""
        history = self.read(history)
        last = (history >= 0).sum(1)  # [U], position 0 is before the first item
        vectors: Tensor = self(history)[torch.arange(len(history), device=history.device), last]
        return vectors

    def vectors(self) -> Tensor:
        return self.items.weight


def padding_last(history: Tensor) -> Tensor:
    """The same items in the same order, padding at the end."""
    order = (history < 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return history.gather(1, order)
