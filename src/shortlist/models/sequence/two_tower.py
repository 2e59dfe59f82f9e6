"""Two towers: a history becomes a user vector, an item a vector beside it, and their angle is the score."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True)
class TowerConfig:
    """Sizes of the towers; all of them can be read off the weights again."""

    n_items: int
    n_categories: int = 1
    width: int = 64
    hidden: int = 128
    max_history: int = 50  # how many of the last items the user tower looks at


class TwoTower(nn.Module):
    """User vectors from recency-weighted histories, item vectors from ids and categories, all of unit length."""

    category_of: Tensor  # [n_items]
    temperature: nn.Parameter

    def __init__(self, config: TowerConfig, category_of: Tensor, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("category_of", category_of.to(torch.int64))
        self.met = nn.Embedding(config.n_items, config.width)  # items as part of a history
        self.offered = nn.Embedding(config.n_items, config.width)  # items as something to show
        self.theme = nn.Embedding(config.n_categories, config.width)
        self.recency = nn.Parameter(torch.linspace(-1.0, 1.0, config.max_history))
        self.lift = nn.Linear(2 * config.width, config.hidden)
        self.land = nn.Linear(config.hidden, config.width)
        self.temperature = nn.Parameter(torch.tensor(2.5))  # log of the factor on cosines in training
        self.dropout = dropout  # the share of a history that is forgotten while training
        for table in (self.met, self.offered, self.theme):
            nn.init.normal_(table.weight, std=config.width**-0.5)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> Self:
        """The towers back from their weights."""
        n_items, width = weights["met.weight"].shape
        sizes = (len(weights["theme.weight"]), width, len(weights["lift.bias"]), len(weights["recency"]))
        towers = cls(TowerConfig(n_items, *sizes), weights["category_of"])
        towers.load_state_dict(dict(weights))
        return towers.eval()

    def users(self, history: Tensor) -> Tensor:
        """Unit vectors of users from what they met [B, H], -1 = padding; without any history all alike [B, D]."""
        history = history[:, -self.config.max_history :]
        there = history >= 0  # [B, H]
        if self.training and self.dropout:
            there = there & (torch.rand(there.shape, device=there.device) >= self.dropout)
        met = self._met(history.clamp(min=0))  # [B, H, D]
        recency = self.recency[-history.shape[1] :]
        long, short = self._shares(there, recency), self._shares(there, 6.0 * recency)
        pooled = torch.stack([long, short], dim=1) @ met  # [B, 2, D]
        mixed = self.land(F.gelu(self.lift(pooled.flatten(1))))  # [B, D]
        return F.normalize(mixed + pooled[:, 0], dim=-1)

    def items(self, rows: Tensor | None = None) -> Tensor:
        """Unit vectors of items [..., D]; of the whole catalogue without `rows`."""
        if rows is not None and rows.numel() <= self.config.n_items:
            return F.normalize(self.offered(rows) + self.theme(self.category_of[rows]), dim=-1)
        # More places than items: every item once is the shorter way.
        whole = F.normalize(self.offered.weight + self.theme(self.category_of), dim=-1)
        return whole if rows is None else F.embedding(rows, whole)

    def forward(self, history: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits for training: cosines times the learned temperature, [B, n_items] or [B, K]."""
        users, items = self.users(history) * self.temperature.exp(), self.items(rows)
        return users @ items.T if rows is None else torch.einsum("bd,bkd->bk", users, items)

    def _met(self, rows: Tensor) -> Tensor:
        """Items as parts of histories [B, H, D]."""
        if rows.numel() <= self.config.n_items:
            return F.embedding(rows, self.met.weight) + F.embedding(self.category_of[rows], self.theme.weight)
        return F.embedding(rows, self.met.weight + self.theme(self.category_of))

    def _shares(self, there: Tensor, weights: Tensor) -> Tensor:
        """What each item of a history weighs [B, H]; together 1, or 0 where nothing was met."""
        return torch.softmax(weights.expand(there.shape).masked_fill(~there, -1e9), dim=1) * there
