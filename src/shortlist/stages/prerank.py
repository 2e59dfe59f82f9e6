"""A cheap look at many candidates: the angle between a user vector and theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Scorer
from shortlist.models.sequence.two_tower import TwoTower


@dataclass(frozen=True, eq=False, repr=False)
class TowerScorer(Scorer):
    """Scores candidates by two towers."""

    towers: TwoTower

    @torch.no_grad()
    def score(self, query: Query, found: Candidates) -> Tensor:
        users = self.towers.users(query.history)  # [B, D]
        items = self._vectors[found.items.clamp(min=0)]  # [B, K, D]
        return torch.einsum("bd,bkd->bk", users, items)

    def tensors(self) -> dict[str, Tensor]:
        return self.towers.state_dict()

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(TwoTower.of(tensors), **settings)

    @cached_property
    def _vectors(self) -> Tensor:
        with torch.no_grad():
            return self.towers.items()
