"""Candidates judged by a model of the whole catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Scorer
from shortlist.represent.model import Model, VectorModel
from shortlist.represent.models import packed, unpacked


@dataclass(frozen=True, eq=False, repr=False)
class ModelScorer(Scorer):
    """The model's own scores; where they are products of vectors, of the candidates alone."""

    model: Model

    @torch.no_grad()
    def score(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)
        if isinstance(self.model, VectorModel):
            users = self.model.users(query.history, query.user)  # [B, D]
            return torch.einsum("bd,bkd->bk", users, self.model.vectors()[rows])
        return self.model.scores(query.history, query.user).gather(1, rows)

    def tensors(self) -> dict[str, Tensor]:
        return packed(self.model)

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(unpacked(tensors), **settings)
