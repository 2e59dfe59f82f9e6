"""SASRec: what a user meets next, told by a causal transformer from what came before (Kang and McAuley, 2018)."""

import torch
from torch import Tensor, nn

from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.models.sequence.transformer import Block, TransformerConfig


class SASRecConfig(TransformerConfig):
    """The sizes of this model."""


class SASRec(SequenceModel):
    """User vectors from histories; a user's score of an item is the product with the item's own embedding.

    A sequence begins with a mark that stands for "nothing known yet", so that a user without history has a vector
    too: what it foretells is what anybody might meet. Padding stands at the end, and nobody looks ahead: no mask is
    needed.
    """

    Config = SASRecConfig
    config: SASRecConfig

    def __init__(self, config: SASRecConfig) -> None:
        super().__init__(config, config.width)
        self.begin = nn.Parameter(torch.zeros(config.width))
        self.place = nn.Parameter(torch.empty(config.max_history + 1, config.width))
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, config.dropout) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)
        nn.init.normal_(self.place, std=0.02)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        met = self.items(history.clamp(min=0)) * self.config.width**0.5
        begin = self.begin.expand(len(history), 1, -1)
        x = torch.cat([begin.to(met.dtype), met], dim=1) + self.place[: history.shape[1] + 1]  # [U, K + 1, D]
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        known: Tensor = self.norm(x)
        return known
