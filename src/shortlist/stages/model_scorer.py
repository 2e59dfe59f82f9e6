"""Model scorer: candidates scored by a model of the whole catalogue."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Scorer
from shortlist.models.model import Model
from shortlist.models.registry import packed, unpacked
from shortlist.models.state_model import StateModel
from shortlist.models.user_vectors import user_vectors


@dataclass(frozen=True, eq=False, repr=False)
class ModelScorer(Scorer):
    """The model's own scores, computed for the candidates alone where the model can."""

    model: Model

    @torch.no_grad()
    def score(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)
        if isinstance(self.model, StateModel):
            return self.model.score_vectors(user_vectors(self.model, query), rows)
        return self.model.score_rows(query.history, rows, query.user)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        self.model.check_catalogue(n_items)

    def tensors(self) -> dict[str, Tensor]:
        return packed(self.model)

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(unpacked(tensors), **settings)
