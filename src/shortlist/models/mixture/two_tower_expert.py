"""Two-tower experts: each reads its own subset of the features of a context."""

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.mixture.experts import Experts

ITEM_STD = 0.1


class TwoTowerExperts(Experts):
    """N experts <W_n' [x_S; 1], e_n(a)>, where S are the features of expert n.

    The constant feature is needed for the popularity of items when contexts have mean 0. Item vectors are own ones of
    every expert, or shared by all.
    """

    features: Tensor  # [d, N] bool: the expert reads the feature

    def __init__(self, features: Tensor, n_items: int, width: int, *, shared_items: bool = False) -> None:
        super().__init__()
        if features.ndim != 2 or 0 in features.shape or n_items < 1 or width < 1:
            raise ConfigError(
                f"experts: expected features [d, N], items and a width of at least 1, got {list(features.shape)}, "
                f"{n_items} and {width}"
            )
        self.n_features, self.n_experts = features.shape
        self.n_items, self.width, self.shared_items = n_items, width, shared_items
        self.register_buffer("features", features)
        self.weight = nn.Parameter(torch.empty(self.n_features, self.n_experts, width))
        self.constant = nn.Parameter(torch.empty(self.n_experts, width))
        self.items = nn.Parameter(torch.empty(n_items, 1 if shared_items else self.n_experts, width))
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        read = self.features.sum(0)[:, None] + 1  # [N, 1] with the constant
        for weights in (self.weight, self.constant):
            nn.init.normal_(weights)
            weights.mul_(read**-0.5)
        self.weight.mul_(self.features[..., None])
        nn.init.normal_(self.items, std=ITEM_STD)

    def users(self, contexts: Tensor) -> Tensor:
        """Vectors of contexts [B, N, D]."""
        weight = self.weight * self.features[..., None]  # [d, N, D]
        return torch.einsum("bd,dne->bne", contexts, weight) + self.constant

    def vectors(self) -> Tensor:
        """Vectors of items [A, N, D]."""
        return self.items.expand(-1, self.n_experts, -1)

    def forward(self, contexts: Tensor, items: Tensor) -> Tensor:
        vectors = F.embedding(items, self.items.flatten(1)).view(*items.shape, -1, self.width)
        users = self.users(contexts)
        return (users if items.ndim == 1 else users[:, None]).mul(vectors).sum(-1)

    def all(self, contexts: Tensor) -> Tensor:
        return torch.einsum("bne,ane->ban", self.users(contexts), self.vectors())

    @torch.no_grad()
    def kept(self, at: Tensor) -> Self:
        """A copy with these experts alone."""
        made = type(self)(self.features[:, at], self.n_items, self.width, shared_items=self.shared_items)
        made.to(self.weight)
        made.weight.copy_(self.weight[:, at])
        made.constant.copy_(self.constant[at])
        made.items.copy_(self.items if self.shared_items else self.items[:, at])
        return made

    def settings(self) -> dict[str, Any]:
        """The plain values that `build` needs beside the weights."""
        names = ("n_features", "n_experts", "n_items", "width", "shared_items")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Self:
        """Experts of these sizes, for weights that are loaded afterwards."""
        values = dict(settings)
        features = torch.ones(values.pop("n_features"), values.pop("n_experts"), dtype=torch.bool)
        return cls(features, **values)


def feature_subsets(n_features: int, n_experts: int, subset: int, *, seed: int) -> Tensor:
    """A random subset of `subset` features for every expert [d, N]; larger subsets contain smaller ones."""
    if not 1 <= subset <= n_features:
        raise ConfigError(f"experts: expected a subset of 1 to {n_features} features, got {subset}")
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(n_features, n_experts, generator=generator).argsort(0).argsort(0)
    return order < subset
