"""The items a model of the whole catalogue scores best."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Nominator
from shortlist.index import top
from shortlist.represent.model import Model
from shortlist.represent.models import packed, unpacked


@dataclass(frozen=True, eq=False, repr=False)
class ModelNominator(Nominator):
    """Every item is scored, the best are named; a user without history gets what the model says of anybody.

    `fresh` leaves out what the request's history holds before the best are taken, so that no place is lost to it.
    """

    model: Model
    fresh: bool = False

    @torch.no_grad()
    def nominate(self, query: Query) -> Candidates:
        scores = self.model.scores(query.history, query.user)  # [B, N]
        if self.fresh:
            scores = without(scores, query.history)
        best, items = top(scores, self.limit)
        return Candidates.of(
            items.masked_fill(best == -torch.inf, -1), best.masked_fill(best == -torch.inf, 0.0)
        )

    def tensors(self) -> dict[str, Tensor]:
        return packed(self.model)

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        return cls(unpacked(tensors), **settings)


def without(scores: Tensor, items: Tensor) -> Tensor:
    """Scores [B, N] with -inf at each row's own items [B, H]; -1 is no item."""
    wide = torch.nn.functional.pad(scores, (0, 1))  # a place for what is no item
    at = torch.where((items < 0) | (items >= scores.shape[1]), scores.shape[1], items)
    return wide.scatter(1, at, -torch.inf)[:, :-1]
