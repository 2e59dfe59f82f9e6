"""Models that read a history in its order and foretell at every place what comes next."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig, VectorModel


class SequenceModel(VectorModel):
    """User vectors from sequences; a score is the product with the item's own vector.

    Padding stands at the end of a sequence, where nobody who looks back can see it.
    """

    def __init__(self, config: ModelConfig, width: int) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, width)
        nn.init.normal_(self.items.weight, std=width**-0.5)

    @abstractmethod
    def forward(self, history: Tensor) -> Tensor:
        """What is foretold before the first item, after it, ... after the last [U, K + 1, D].

        history [U, K], -1 = padding, which is moved to the end; only the last `max_history` count.
        """

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """A vector per user from what was met [U, K], -1 = padding -> [U, D]; finite without any history."""
        history = self.read(history)
        last = (history >= 0).sum(1)  # [U], the first place is before any item
        known: Tensor = self(history)[torch.arange(len(history), device=history.device), last]
        return known

    def vectors(self) -> Tensor:
        return self.items.weight


def padding_last(history: Tensor) -> Tensor:
    """The same items in the same order, padding behind them."""
    order = (history < 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return history.gather(1, order)
