"""BERT4Rec: a bidirectional transformer predicts masked items of a sequence (Sun et al., 2019)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from shortlist.models.model import VectorModel
from shortlist.models.sequence.transformer import Block, TransformerConfig


class BERT4RecConfig(TransformerConfig):
    """Sizes of BERT4Rec."""


class BERT4Rec(VectorModel):
    """A bidirectional transformer predicts masked items of a sequence.

    To recommend, a mask token is appended to the history and its item is predicted. Padding is at the front and
    positions count from the end, so that the appended mask always has the same position.
    """

    Config = BERT4RecConfig
    training_defaults: ClassVar[Mapping[str, Any]] = {"epochs": 200, "patience": 15}
    config: BERT4RecConfig

    def __init__(self, config: BERT4RecConfig) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, config.width)
        self.mask_token = nn.Parameter(torch.zeros(config.width))
        self.positions = nn.Parameter(torch.empty(config.max_history + 1, config.width))
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, config.dropout, causal=False) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.items.weight, std=config.width**-0.5)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, sequence: Tensor, masked: Tensor) -> Tensor:
        """Output vectors at every position [U, K, D].

        sequence [U, K] with padding, -1, at the front; the item is hidden where `masked` [U, K] is True.
        """
        items = self.items(sequence.clamp(min=0)) * self.config.width**0.5
        x = torch.where(masked[..., None], self.mask_token.to(items.dtype), items)
        x = self.dropout(x + self.positions[-sequence.shape[1] :])
        visible = (sequence >= 0) | masked
        # The last position is always visible: attention over nothing but padding would be NaN.
        visible = torch.cat([visible[:, :-1], torch.ones_like(visible[:, -1:])], dim=1)[:, None, None, :]
        for block in self.blocks:
            x = block(x, visible)
        vectors: Tensor = self.norm(x)
        return vectors

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        if not self.config.n_items:  # nothing to embed
            return self.mask_token.expand(len(history), -1)
        history = self.read(history)
        sequence = torch.cat([history, history.new_full((len(history), 1), -1)], dim=1)
        masked = torch.zeros_like(sequence, dtype=torch.bool)
        masked[:, -1] = True
        vectors: Tensor = self(sequence, masked)[:, -1]
        return vectors

    def vectors(self) -> Tensor:
        return self.items.weight
