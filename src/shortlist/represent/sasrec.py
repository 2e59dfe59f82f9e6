"""SASRec: what a user meets next, told by a causal transformer from what came before (Kang and McAuley, 2018)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.represent.model import ModelConfig, VectorModel


@dataclass(frozen=True)
class SASRecConfig(ModelConfig):
    """Sizes of the transformer; `heads` must divide `width`."""

    width: int = 64
    blocks: int = 2
    heads: int = 2
    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise ConfigError(f"heads must divide width, got {self.heads} heads and width {self.width}")


class SASRec(VectorModel):
    """User vectors from histories; a user's score of an item is the product with the item's own embedding.

    A sequence begins with a mark that stands for "nothing known yet", so that a user without history has a vector
    too: what it foretells is what anybody might meet. Padding is taken out before anything is computed.
    """

    Config = SASRecConfig
    config: SASRecConfig

    def __init__(self, config: SASRecConfig) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, config.width)
        self.begin = nn.Parameter(torch.zeros(config.width))
        self.place = nn.Parameter(torch.empty(config.memory + 1, config.width))
        self.blocks = nn.ModuleList(
            Block(config.width, config.heads, config.dropout) for _ in range(config.blocks)
        )
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)
        nn.init.normal_(self.items.weight, std=config.width**-0.5)
        nn.init.normal_(self.place, std=0.02)

    def forward(self, history: Tensor) -> Tensor:
        """What is foretold before the first item, after it, ... after the last [U, K + 1, D]; padding moved to the end.

        history [U, K], -1 = padding; only the last `memory` count.
        """
        history = _padding_last(history[:, -self.config.memory :])  # [U, K]
        met = self.items(history.clamp(min=0)) * self.config.width**0.5
        begin = self.begin.expand(len(history), 1, -1)
        x = torch.cat([begin.to(met.dtype), met], dim=1) + self.place[: history.shape[1] + 1]  # [U, K + 1, D]
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        known: Tensor = self.norm(x)
        return known

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """A vector per user from what was met [U, K], -1 = padding -> [U, D]; finite without any history."""
        history = self.read(history)
        last = (history >= 0).sum(1)  # [U], the first place is before any item
        known: Tensor = self(history)[torch.arange(len(history), device=history.device), last]
        return known

    def vectors(self) -> Tensor:
        return self.items.weight


class Block(nn.Module):
    """Look back, then think: attention over what came before and a small network, both added to what was there."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.gather = nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * width, width),
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self._look_back(self.before(x)))
        x = x + self.drop(self.think(x))
        return x

    def _look_back(self, x: Tensor) -> Tensor:
        # Padding stands at the end, and nobody looks ahead: no mask is needed.
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dropped = self.drop.p if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, dropout_p=dropped, is_causal=True)
        mixed: Tensor = self.gather(seen.transpose(1, 2).flatten(2))  # [U, K + 1, D]
        return mixed


def _padding_last(history: Tensor) -> Tensor:
    """The same items in the same order, padding behind them."""
    order = (history < 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return history.gather(1, order)
