"""SASRec: a causal transformer over the history predicts the next item (Kang and McAuley, 2018)."""

import torch
from torch import Tensor, nn

from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.models.sequence.transformer import Block, TransformerConfig


class SASRecConfig(TransformerConfig):
    """Sizes of SASRec."""


class SASRec(SequenceModel):
    """A causal transformer over the history predicts the next item.

    Item embeddings are shared between input and output. A sequence begins with a start token, so that an empty
    history has a user vector too. Padding is at the end and the attention is causal, so no padding mask is needed.
    """

    Config = SASRecConfig
    config: SASRecConfig

    def __init__(self, config: SASRecConfig) -> None:
        super().__init__(config, config.width)
        self.start_token = nn.Parameter(torch.zeros(config.width))
        self.positions = nn.Parameter(torch.empty(config.max_history + 1, config.width))
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, config.dropout) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.positions, std=0.02)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        items = self.items(history.clamp(min=0)) * self.config.width**0.5
        start = self.start_token.expand(len(history), 1, -1)
        x = torch.cat([start.to(items.dtype), items], dim=1)  # [U, K + 1, D]
        x = self.dropout(x + self.positions[: history.shape[1] + 1])
        for block in self.blocks:
            x = block(x)
        vectors: Tensor = self.norm(x)
        return vectors
