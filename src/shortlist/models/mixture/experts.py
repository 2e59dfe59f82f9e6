"""Experts: N predictors of the outcome of an item in a context."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shortlist.errors import ConfigError


class Experts(nn.Module, ABC):
    """N experts at once; the last axis of every prediction is the expert."""

    n_experts: int
    n_items: int

    @abstractmethod
    def forward(self, contexts: Tensor, items: Tensor) -> Tensor:
        """Predictions for items [B] as [B, N], or for items [B, K] as [B, K, N]."""

    @abstractmethod
    def all(self, contexts: Tensor) -> Tensor:
        """Predictions for every item [B, A, N]."""

    def reset(self) -> None:
        """New initial values, by torch's random numbers."""


class JoinedExperts(Experts):
    """Experts of several kinds side by side, such as learned and frozen ones."""

    def __init__(self, parts: Sequence[Experts]) -> None:
        super().__init__()
        sizes = {part.n_items for part in parts}
        if len(sizes) != 1:
            raise ConfigError(f"experts: expected parts with the same items, got {sorted(sizes)}")
        self.parts = nn.ModuleList(parts)
        self.n_experts, self.n_items = sum(part.n_experts for part in parts), sizes.pop()

    def forward(self, contexts: Tensor, items: Tensor) -> Tensor:
        return torch.cat([part(contexts, items) for part in self.parts], dim=-1)

    def all(self, contexts: Tensor) -> Tensor:
        return torch.cat([part.all(contexts) for part in self._experts], dim=-1)

    def reset(self) -> None:
        for part in self._experts:
            part.reset()

    @property
    def _experts(self) -> list[Experts]:
        return [part for part in self.parts if isinstance(part, Experts)]
