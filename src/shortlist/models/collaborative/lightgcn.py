"""LightGCN: user and item vectors smoothed over the graph of interactions (He et al., 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from shortlist.models.collaborative.mf import known_users
from shortlist.models.model import ModelConfig, VectorModel, without_repeats
from shortlist.settings import setting


@dataclass(frozen=True)
class LightGCNConfig(ModelConfig):
    """Sizes of LightGCN; it reads the whole history."""

    max_history: int = 10_000
    n_users: int = setting(0, "Number of users.", least=0, derived=True)
    width: int = setting(64, "Width of the user and item vectors.", least=1, most=8192)
    layers: int = setting(3, "Number of propagation layers on the graph.", least=1, most=16)


class LightGCN(VectorModel):
    """User and item vectors propagated along the graph of interactions, mean over layers.

    Edges weigh 1 / sqrt(degree * degree). A user receives messages from the items of the history only. The user
    vector is therefore computed from the history, plus the user's own embedding for users of the training data: it
    follows a growing history, and new users have one.
    """

    Config = LightGCNConfig
    training_defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 2e-3, "weight_decay": 0.0}
    config: LightGCNConfig
    history_vectors: Tensor  # [N, D] item vectors as summed over a history
    item_vectors: Tensor  # [N, D] item vectors as candidates
    mean_user: Tensor  # [D]
    trained_users: Tensor  # [n_users] True for users with training events
    graph: Tensor  # [n_users + N, n_users + N] symmetric and sparse; set while training

    def __init__(self, config: LightGCNConfig) -> None:
        super().__init__(config)
        self.user_embedding = nn.Embedding(config.n_users, config.width)
        self.items = nn.Embedding(config.n_items, config.width)
        for name in ("history_vectors", "item_vectors"):
            self.register_buffer(name, torch.zeros(config.n_items, config.width))
        self.register_buffer("mean_user", torch.zeros(config.width))
        self.register_buffer("trained_users", torch.zeros(config.n_users, dtype=torch.bool))
        for table in (self.user_embedding, self.items):
            nn.init.normal_(table.weight, std=0.1)

    def propagate(self) -> list[Tensor]:
        """Vectors of users, then of items, after 0, 1, ... layers, each [n_users + N, D]; needs `graph`."""
        layers = [torch.cat([self.user_embedding.weight, self.items.weight])]
        for _ in range(self.config.layers):
            layers.append(_message(self.graph, layers[-1]))
        return layers

    @torch.no_grad()
    def finish(self, degrees: Tensor, trained_users: Tensor) -> None:
        """Compute the vectors used for recommending, from the `degrees` of the items [N]; needs `graph`."""
        self.trained_users.copy_(trained_users)
        nodes = self.propagate()
        layers = [layer[self.config.n_users :] for layer in nodes]
        share = 1.0 / len(layers)
        self.item_vectors.copy_(sum(layers, torch.zeros_like(self.item_vectors)) * share)
        earlier = sum(layers[:-1], torch.zeros_like(self.item_vectors))
        self.history_vectors.copy_(earlier * share / degrees.clamp(min=1).sqrt()[:, None])
        users = torch.stack(nodes).mean(0)[: self.config.n_users]
        if bool(trained_users.any()):
            self.mean_user.copy_(users[trained_users].mean(0))

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = without_repeats(self.read(history))  # an edge of the graph exists or not
        valid = (history >= 0)[..., None]
        count = valid.sum(1)  # [U, 1]
        total = (nn.functional.embedding(history.clamp(min=0), self.history_vectors) * valid).sum(1)
        vector = total / count.clamp(min=1).sqrt()
        if user is not None and self.config.n_users:
            row, known = known_users(user, self.trained_users)
            own = self.user_embedding(row) / (self.config.layers + 1)
            vector = vector + torch.where(known[:, None] & (count > 0), own, 0.0)
        return torch.where(count > 0, vector, self.mean_user)

    def vectors(self) -> Tensor:
        return self.item_vectors


def _message(graph: Tensor, x: Tensor) -> Tensor:
    received: Tensor = _Message.apply(graph, x)  # type: ignore[no-untyped-call]
    return received


class _Message(torch.autograd.Function):
    """One propagation along a symmetric graph; its gradient is a propagation too."""

    @staticmethod
    def forward(ctx: Any, graph: Tensor, x: Tensor) -> Tensor:
        ctx.graph = graph
        return graph @ x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        graph: Tensor = ctx.graph
        return None, graph @ gradient.contiguous()
