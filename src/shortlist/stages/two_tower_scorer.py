"""Two-tower scorer, a cheap pre-ranker: cosine of the user vector and the candidate's vector."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.models.sequence.two_tower import TwoTower
from shortlist.stages.calibrated import PREFIX, Calibrated, Calibration


@dataclass(frozen=True, eq=False, repr=False)
class TowerScorer(Calibrated):
    """Scores candidates by two towers."""

    towers: TwoTower

    def raw(self, query: Query, found: Candidates) -> Tensor:
        users = self.towers.users(query.history)  # [B, D]
        items = self._vectors[found.items.clamp(min=0)]  # [B, K, D]
        return torch.einsum("bd,bkd->bk", users, items)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        self.towers.check_catalogue(n_items)

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), **self.towers.state_dict()}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        weights = {name: one for name, one in tensors.items() if not name.startswith(PREFIX)}
        return cls(TwoTower.of(weights), calibration=Calibration.of(tensors), **settings)

    @cached_property
    def _vectors(self) -> Tensor:
        with torch.no_grad():
            return self.towers.items()
