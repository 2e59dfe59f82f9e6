"""BERT4Rec: a transformer that sees both sides of a gap fills the one at the end (Sun et al., 2019)."""

import torch
from torch import Tensor, nn

from shortlist.models.model import VectorModel
from shortlist.models.sequence.transformer import Block, TransformerConfig


class BERT4RecConfig(TransformerConfig):
    """The sizes of this model."""


class BERT4Rec(VectorModel):
    """Padding stands in front, and places are counted from the end: the gap to fill is always at the same one."""

    Config = BERT4RecConfig
    config: BERT4RecConfig

    def __init__(self, config: BERT4RecConfig) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, config.width)
        self.gap = nn.Parameter(torch.zeros(config.width))
        self.place = nn.Parameter(torch.empty(config.max_history + 1, config.width))
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, config.dropout, causal=False) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)
        nn.init.normal_(self.items.weight, std=config.width**-0.5)
        nn.init.normal_(self.place, std=0.02)

    def forward(self, sequence: Tensor, gaps: Tensor) -> Tensor:
        """What stands at every place, told by all others [U, K, D].

        sequence [U, K] with padding, -1, in front; where `gaps` [U, K] says so, the item is hidden.
        """
        met = self.items(sequence.clamp(min=0)) * self.config.width**0.5
        x = torch.where(gaps[..., None], self.gap.to(met.dtype), met) + self.place[-sequence.shape[1] :]
        x = self.drop(x)
        there = (sequence >= 0) | gaps
        # One place can always be seen: a sequence of nothing but padding must not become NaN.
        there = torch.cat([there[:, :-1], torch.ones_like(there[:, -1:])], dim=1)[:, None, None, :]
        for block in self.blocks:
            x = block(x, there)
        known: Tensor = self.norm(x)
        return known

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        if not self.config.n_items:  # no vectors to look up
            return self.gap.expand(len(history), -1)
        history = self.read(history)
        sequence = (
            torch.cat([history, torch.full_like(history[:, :1], -1)], dim=1)
            if history.shape[1]
            else (history.new_full((len(history), 1), -1))
        )
        gaps = torch.zeros_like(sequence, dtype=torch.bool)
        gaps[:, -1] = True
        known: Tensor = self(sequence, gaps)[:, -1]
        return known

    def vectors(self) -> Tensor:
        return self.items.weight
