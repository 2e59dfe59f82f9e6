"""The pre-rank and rank models of the simulated funnel: a two-tower network and a feed-forward network."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.settings import check_fields, setting
from shortlist.simulate.full_stage.cell_noise import Floats, Rows

CELLS = 1 << 14  # cells that the rank model scores at once: 64 MB of its widest layer


@dataclass(frozen=True)
class StageModelConfig:
    """Sizes and training of the stage models; the defaults are those of the paper."""

    prerank_layers: tuple[int, ...] = setting(
        (256, 128), "Layers of each tower of the pre-rank model.", least=1
    )
    rank_layers: tuple[int, ...] = setting((1024, 512, 256), "Layers of the rank model.", least=1)
    width: int = setting(32, "Width of the embeddings of users and items.", least=1, most=1024)
    learning_rate: float = setting(1e-3, "Learning rate of Adam.", least=0, most=1)
    batch_size: int = setting(8192, "Cells per step.", least=1)
    epochs: int = setting(2, "Passes over the exposed cells.", least=1)
    max_cells: int = setting(0, "Exposed cells to train on, sampled; 0 = all.", least=0)
    held_out: float = setting(0.05, "Share of the exposed cells that measures the AUC.", least=0, most=0.5)

    def __post_init__(self) -> None:
        check_fields(self, "stage models")


class TwoTower(nn.Module):
    """User and item towers over features and embeddings; the score is their inner product."""

    def __init__(self, users: Tensor, items: Tensor, width: int, layers: Sequence[int]) -> None:
        super().__init__()
        self.user, self.item = _Inputs(users, width), _Inputs(items, width)
        self.user_tower = _layers([self.user.width, *layers])
        self.item_tower = _layers([self.item.width, *layers])

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of cells [n]."""
        return (self.user_vectors(users) * self.item_vectors(items)).sum(-1)

    def user_vectors(self, users: Tensor) -> Tensor:
        """Vectors of users [n] -> [n, D]."""
        vectors: Tensor = self.user_tower(self.user(users))
        return vectors

    def item_vectors(self, items: Tensor) -> Tensor:
        """Vectors of items [n] -> [n, D]."""
        vectors: Tensor = self.item_tower(self.item(items))
        return vectors


class RankNetwork(nn.Module):
    """A feed-forward network over the features and embeddings of a user and an item."""

    def __init__(self, users: Tensor, items: Tensor, width: int, layers: Sequence[int]) -> None:
        super().__init__()
        self.user, self.item = _Inputs(users, width), _Inputs(items, width)
        self.from_user = nn.Linear(self.user.width, layers[0])
        self.from_item = nn.Linear(self.item.width, layers[0], bias=False)
        self.rest = nn.Sequential(nn.ReLU(), _layers([*layers, 1]))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of cells [n]."""
        return self.score(self.user_part(users), self.item_part(items))

    def user_part(self, users: Tensor) -> Tensor:
        """The part of the first layer that depends on the user."""
        part: Tensor = self.from_user(self.user(users))
        return part

    def item_part(self, items: Tensor) -> Tensor:
        """The part of the first layer that depends on the item."""
        part: Tensor = self.from_item(self.item(items))
        return part

    def score(self, user_part: Tensor, item_part: Tensor) -> Tensor:
        """Scores from both parts of the first layer."""
        scores: Tensor = self.rest(user_part + item_part)
        return scores.squeeze(-1)


@dataclass(frozen=True, eq=False)
class TwoTowerScore:
    """Scores of the pre-rank model, from vectors that are computed once."""

    users: Floats  # [U, D]
    items: Floats  # [I, D]

    @classmethod
    @torch.no_grad()
    def of(cls, model: TwoTower) -> "TwoTowerScore":
        users, items = model.user_vectors(model.user.rows), model.item_vectors(model.item.rows)
        return cls(users.cpu().numpy(), items.cpu().numpy())

    def __call__(self, users: Rows, items: Rows) -> Floats:
        vectors = self.items[items].swapaxes(-1, -2)  # [D, K] or [B, D, K]
        return np.asarray(np.matmul(self.users[users][:, None], vectors)[:, 0], np.float32)


@dataclass(frozen=True, eq=False)
class RankScore:
    """Scores of the rank model; the first layer is computed once per user and item."""

    model: RankNetwork
    users: Tensor  # [U, H]
    items: Tensor  # [I, H]

    @classmethod
    @torch.no_grad()
    def of(cls, model: RankNetwork) -> "RankScore":
        return cls(model, model.user_part(model.user.rows), model.item_part(model.item.rows))

    @torch.no_grad()
    def __call__(self, users: Rows, items: Rows) -> Floats:
        grid = np.broadcast_to(items, (len(users), items.shape[-1]))
        left, right = np.repeat(users, grid.shape[1]), grid.ravel()
        parts = [
            self._part(left[at : at + CELLS], right[at : at + CELLS]) for at in range(0, len(left), CELLS)
        ]
        return np.concatenate([np.zeros(0, np.float32), *parts]).reshape(grid.shape)

    def _part(self, users: Rows, items: Rows) -> Floats:
        scores = self.model.score(
            self.users[torch.from_numpy(users)], self.items[torch.from_numpy(items.copy())]
        )
        return np.asarray(scores.cpu().numpy(), np.float32)


class _Inputs(nn.Module):
    """Features beside an embedding of each row."""

    features: Tensor  # [N, F]

    def __init__(self, features: Tensor, width: int) -> None:
        super().__init__()
        self.register_buffer("features", features)
        self.embedding = nn.Embedding(len(features), width)
        nn.init.normal_(self.embedding.weight, std=0.05)

    @property
    def width(self) -> int:
        return self.features.shape[1] + self.embedding.embedding_dim

    @property
    def rows(self) -> Tensor:
        return torch.arange(len(self.features), device=self.features.device)

    def forward(self, rows: Tensor) -> Tensor:
        return torch.cat([self.features[rows], self.embedding(rows)], -1)


def _layers(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for wide, next_wide in pairwise(sizes):
        layers += [nn.Linear(wide, next_wide), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
