"""Two towers: a user vector from the history and an item vector from id and category; their cosine is the score."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.artifact.tensor_checks import check_whole
from shortlist.models.model import ModelConfig, VectorModel
from shortlist.models.stored_weights import with_weights
from shortlist.settings import setting


@dataclass(frozen=True)
class TwoTowerConfig(ModelConfig):
    """Sizes of the towers."""

    max_history: int = 50
    n_categories: int = setting(1, "Number of item categories.", least=0, derived=True)
    width: int = setting(64, "Width of the user and item vectors.", least=1, most=8192)
    hidden: int = setting(128, "Width of the hidden layer of the user tower.", least=1, most=65_536)
    dropout: float = setting(
        0.2, "Share of a history that is dropped at random in training.", least=0, most=0.95
    )


class TwoTower(VectorModel):
    """User vectors from recency-weighted histories, item vectors from ids and categories; scores are cosines."""

    Config = TwoTowerConfig
    needs_history: ClassVar[bool] = True
    config: TwoTowerConfig
    category_of: Tensor  # [n_items] category rows

    def __init__(self, config: TwoTowerConfig) -> None:
        super().__init__(config)
        self.register_buffer("category_of", torch.zeros(config.n_items, dtype=torch.int64))
        self.history_items = nn.Embedding(config.n_items, config.width)
        self.candidate_items = nn.Embedding(config.n_items, config.width)
        self.categories = nn.Embedding(config.n_categories, config.width)
        self.recency = nn.Parameter(torch.linspace(-1.0, 1.0, config.max_history))
        self.hidden = nn.Linear(2 * config.width, config.hidden)
        self.output = nn.Linear(config.hidden, config.width)
        self.log_scale = nn.Parameter(torch.tensor(2.5))  # log of the factor on cosines in training
        for table in (self.history_items, self.candidate_items, self.categories):
            nn.init.normal_(table.weight, std=config.width**-0.5)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> Self:
        """The towers from their state dict alone, without dropout."""
        n_items, width = weights["history_items.weight"].shape
        config = TwoTowerConfig(
            n_items,
            max_history=len(weights["recency"]),
            n_categories=len(weights["categories.weight"]),
            width=width,
            hidden=len(weights["hidden.bias"]),
            dropout=0.0,
        )
        return with_weights(lambda: cls(config), weights)

    def check_catalogue(self, n_items: int) -> None:
        super().check_catalogue(n_items)
        check_whole("category_of", self.category_of, 0, self.config.n_categories)

    def with_categories(self, category_of: Tensor) -> Self:
        """Set the category row of every item [n_items]."""
        self.category_of.copy_(category_of)
        return self

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """Unit user vectors [U, D] from histories [U, K], -1 = padding; all empty histories have the same vector."""
        history = self.read(history)
        valid = history >= 0  # [U, K]
        if self.training and self.config.dropout:
            valid = valid & (torch.rand(valid.shape, device=valid.device) >= self.config.dropout)
        items = self._in_history(history.clamp(min=0))  # [U, K, D]
        recency = self.recency[self.config.max_history - history.shape[1] :]
        long, short = self._attention(valid, recency), self._attention(valid, 6.0 * recency)
        pooled = torch.stack([long, short], dim=1) @ items  # [U, 2, D]
        mixed = self.output(F.gelu(self.hidden(pooled.flatten(1))))  # [U, D]
        return F.normalize(mixed + pooled[:, 0], dim=-1)

    def vectors(self) -> Tensor:
        return self.items()

    def items(self, rows: Tensor | None = None) -> Tensor:
        """Unit item vectors of `rows` [..., D], or of the whole catalogue [n_items, D]."""
        if rows is not None and rows.numel() <= self.config.n_items:
            return F.normalize(self.candidate_items(rows) + self.categories(self.category_of[rows]), dim=-1)
        # With more rows than items it is cheaper to compute every item once.
        whole = F.normalize(self.candidate_items.weight + self.categories(self.category_of), dim=-1)
        return whole if rows is None else F.embedding(rows, whole)

    def forward(self, history: Tensor, rows: Tensor | None = None) -> Tensor:
        """Logits for training: cosines times the learned scale, [U, n_items] or [U, K]."""
        users, items = self.users(history) * self.log_scale.exp(), self.items(rows)
        return users @ items.T if rows is None else torch.einsum("bd,bkd->bk", users, items)

    def _in_history(self, rows: Tensor) -> Tensor:
        """Embeddings of items in histories [U, K, D]."""
        if rows.numel() <= self.config.n_items:
            return F.embedding(rows, self.history_items.weight) + F.embedding(
                self.category_of[rows], self.categories.weight
            )
        return F.embedding(rows, self.history_items.weight + self.categories(self.category_of))

    def _attention(self, valid: Tensor, weights: Tensor) -> Tensor:
        """Softmax weights of the valid positions [U, K]; 0 everywhere for an empty history."""
        return torch.softmax(weights.expand(valid.shape).masked_fill(~valid, -1e9), dim=1) * valid
