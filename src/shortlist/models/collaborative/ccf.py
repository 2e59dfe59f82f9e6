"""CCF: one vector per user, item vectors from ids and features, trained with softmax over offers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from shortlist.models.collaborative.item_encoder import STD, EncoderSizes, ItemEncoder
from shortlist.models.collaborative.mf import known_users
from shortlist.models.model import ModelConfig, VectorModel
from shortlist.settings import setting

BLOCK = 1 << 16  # items whose vectors are computed at once


@dataclass(frozen=True)
class CCFConfig(ModelConfig):
    """Sizes of the tables and of the item features."""

    n_users: int = setting(0, "Number of users.", least=0, derived=True)
    n_categories: int = setting(0, "Number of item categories.", least=0, derived=True)
    categories_of_item: int = setting(0, "Most categories of one item.", least=0, derived=True)
    n_numbers: int = setting(0, "Number of numeric item columns.", least=0, derived=True)
    width: int = setting(64, "Width of the vector of an item without its features.", least=1, most=8192)
    feature_width: int = setting(64, "Width of the vector of item features.", least=1, most=8192)

    @property
    def encoder(self) -> EncoderSizes:
        """The sizes of the item encoder."""
        return EncoderSizes(
            self.n_items,
            self.width,
            self.feature_width,
            self.n_categories,
            self.categories_of_item,
            self.n_numbers,
        )


class CCF(VectorModel):
    """Scores are inner products of a user's own vector and [e_i ; g(f_i)]; all unknown users have the mean vector.

    Collaborative competitive filtering (Yang et al., 2011) with item features. A user is known if it had events in
    training. Histories are not read.
    """

    Config = CCFConfig
    reads_history: ClassVar[bool] = False

    config: CCFConfig
    item_vectors: Tensor  # [N, D]
    mean_user: Tensor  # [D] in training a running mean
    trained_users: Tensor  # [n_users] True for users with training events

    def __init__(self, config: CCFConfig) -> None:
        super().__init__(config)
        width = config.encoder.total
        self.encoder = ItemEncoder(config.encoder)
        self.user_embedding = nn.Embedding(config.n_users, width, sparse=True)
        nn.init.normal_(self.user_embedding.weight, std=STD)
        self.register_buffer("item_vectors", torch.zeros(config.n_items, width))
        self.register_buffer("mean_user", torch.zeros(width))
        self.register_buffer("trained_users", torch.zeros(config.n_users, dtype=torch.bool))

    @torch.no_grad()
    def finish(self, trained_users: Tensor, trained_items: Tensor) -> None:
        """Compute what scoring needs, from which users [n_users] and items [N] had events in training.

        An item without events has the vector of the unknown item with its features; without features, the mean vector
        of the items with events.
        """
        self.trained_users.copy_(trained_users)
        if bool(trained_users.any()):
            self.mean_user.copy_(_mean(self.user_embedding.weight, trained_users))
        was_training = self.encoder.training
        self.encoder.eval()
        for start in range(0, len(trained_items), BLOCK):
            part = torch.arange(start, min(start + BLOCK, len(trained_items)), device=trained_items.device)
            self.item_vectors[start : start + BLOCK] = self.encoder(part)
        self.encoder.train(was_training)
        untrained = ~trained_items
        if self.config.encoder.has_features:
            self.item_vectors[untrained, : self.config.width] = self.encoder.items.weight[-1]
        elif bool(trained_items.any()):
            self.item_vectors[untrained] = _mean(self.item_vectors, trained_items)

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        mean = self.mean_user.expand(len(history), -1)
        if user is None or not self.config.n_users:
            return mean
        row, known = known_users(user, self.trained_users)
        return torch.where(known[:, None], self.user_embedding(row), mean)

    def vectors(self) -> Tensor:
        return self.item_vectors


def _mean(table: Tensor, rows: Tensor) -> Tensor:
    """The mean of the rows under a mask; as a product, without a copy of them."""
    return (rows.to(table.dtype) / rows.sum()) @ table
