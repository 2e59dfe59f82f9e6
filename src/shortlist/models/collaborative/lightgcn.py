"""LightGCN: vectors of users and items, smoothed over the graph of who met what (He et al., 2020)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shortlist.models.collaborative.mf import who
from shortlist.models.model import ModelConfig, VectorModel, once


@dataclass(frozen=True)
class LightGCNConfig(ModelConfig):
    """Sizes; `hops` is how far vectors travel on the graph."""

    max_history: int = 10_000
    n_users: int = 0
    width: int = 64
    layers: int = 3


class LightGCN(VectorModel):
    """The mean over hops of vectors that are passed on along the graph, weighed by 1 / sqrt(degrees).

    What reaches a user comes through the items of the history alone. So a user's vector is that of the history, with
    the user's own in it where the user was there in training: it follows a history that grows, and newcomers have one.
    """

    Config = LightGCNConfig
    config: LightGCNConfig
    inside: Tensor
    shown: Tensor
    usual: Tensor
    met: Tensor  # [n_users] whether a user was there in training
    graph: Tensor  # [n_users + N, n_users + N] symmetric and sparse, there while it learns

    def __init__(self, config: LightGCNConfig) -> None:
        super().__init__(config)
        self.people = nn.Embedding(config.n_users, config.width)
        self.items = nn.Embedding(config.n_items, config.width)
        for name in ("inside", "shown"):  # items as part of a history, and as something to show
            self.register_buffer(name, torch.zeros(config.n_items, config.width))
        self.register_buffer("usual", torch.zeros(config.width))
        self.register_buffer("met", torch.zeros(config.n_users, dtype=torch.bool))
        for table in (self.people, self.items):
            nn.init.normal_(table.weight, std=0.1)

    def spread(self) -> list[Tensor]:
        """Vectors of users, then of items, after 0, 1, ... hops, each [n_users + N, D]; it needs the graph."""
        layers = [torch.cat([self.people.weight, self.items.weight])]
        for _ in range(self.config.layers):
            layers.append(_along(self.graph, layers[-1]))
        return layers

    @torch.no_grad()
    def settle(self, degrees: Tensor, met: Tensor) -> None:
        """Make ready to answer: what items [N] of these degrees say in a history and when shown, and the usual user."""
        self.met.copy_(met)
        everything = self.spread()
        layers = [one[self.config.n_users :] for one in everything]
        share = 1.0 / len(layers)
        self.shown.copy_(sum(layers, torch.zeros_like(self.shown)) * share)
        before = sum(layers[:-1], torch.zeros_like(self.shown))
        self.inside.copy_(before * share / degrees.clamp(min=1).sqrt()[:, None])
        everybody = torch.stack(everything).mean(0)[: self.config.n_users]
        if bool(met.any()):
            self.usual.copy_(everybody[met].mean(0))

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = once(self.read(history))  # an edge of the graph is there or not
        there = (history >= 0)[..., None]
        count = there.sum(1)  # [U, 1]
        met = (nn.functional.embedding(history.clamp(min=0), self.inside) * there).sum(1)
        vector = met / count.clamp(min=1).sqrt()
        if user is not None and self.config.n_users:
            row, known = who(user, self.met)
            own = self.people(row) / (self.config.layers + 1)
            vector = vector + torch.where(known[:, None] & (count > 0), own, 0.0)
        return torch.where(count > 0, vector, self.usual)

    def vectors(self) -> Tensor:
        return self.shown


def _along(graph: Tensor, x: Tensor) -> Tensor:
    hop: Tensor = _Along.apply(graph, x)  # type: ignore[no-untyped-call]
    return hop


class _Along(torch.autograd.Function):
    """One hop along a symmetric graph, whose gradient is one hop, too."""

    @staticmethod
    def forward(ctx: Any, graph: Tensor, x: Tensor) -> Tensor:
        ctx.graph = graph
        return graph @ x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        graph: Tensor = ctx.graph
        return None, graph @ gradient.contiguous()
