"""The items nearest to the user in the embedding space of two towers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Nominator
from shortlist.index import search
from shortlist.models.sequence.two_tower import TwoTower


@dataclass(frozen=True, eq=False, repr=False)
class Nearest(Nominator):
    """Exact search with the user vector among all item vectors; nominates nothing for users without history."""

    towers: TwoTower

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        items, scores = search(self._vectors, self.towers.users(query.history), self.limit)
        known = (query.history >= 0).any(1, keepdim=True)
        return Candidates.of(items.masked_fill(~known, -1), scores)

    def tensors(self) -> dict[str, Tensor]:
        return self.towers.state_dict()

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(TwoTower.of(tensors), **settings)

    @cached_property
    def _vectors(self) -> Tensor:
        with torch.no_grad():
            return self.towers.items()
