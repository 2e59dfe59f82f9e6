"""What a ranker is told of a candidate: what each nominator thought, and how it fits the user."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shortlist.data import Candidates, Query

LATE = 5  # how many of the last items count as "just now"


@dataclass(frozen=True, eq=False)
class Features:
    """Features of candidates [B, K, F]; each depends on the request and the candidate alone, not on its rivals."""

    nominators: tuple[str, ...]
    popularity: Tensor  # [N] events, all time
    lately: Tensor  # [N] events in the last stretch of the log
    category: Tensor  # [N] row of the category

    @property
    def names(self) -> tuple[str, ...]:
        """What each feature is."""
        said = (f"{name}.{what}" for name in self.nominators for what in ("named", "score", "rank"))
        return (*said, "score", "popularity", "lately", "theme", "theme_now", "length")

    def __call__(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)  # [B, K]
        columns = [column for name in self.nominators for column in _said(found, name)]
        columns.append(torch.nan_to_num(found.scores, nan=0.0, posinf=0.0, neginf=0.0))
        columns += [self._popularity[rows], self._lately[rows]]
        columns += [self._theme(query.history, rows), self._theme(query.history[:, -LATE:], rows)]
        columns.append(torch.log1p((query.history >= 0).sum(1, keepdim=True).float()).expand(rows.shape))
        return torch.stack([column.to(torch.float32) for column in columns], dim=-1)  # [B, K, F]

    def tensors(self) -> dict[str, Tensor]:
        return {"popularity": self.popularity, "lately": self.lately, "category": self.category}

    def _theme(self, history: Tensor, rows: Tensor) -> Tensor:
        """The share of the history that has the candidate's category [B, K]."""
        there = history >= 0  # [B, H]
        met = self.category[history.clamp(min=0)]
        shares = torch.zeros((len(history), self._n_categories), device=history.device)
        shares.scatter_add_(1, met, there / there.sum(1, keepdim=True).clamp(min=1))
        return shares.gather(1, self.category[rows])

    @cached_property
    def _n_categories(self) -> int:
        return int(self.category.max()) + 1 if len(self.category) else 1

    @cached_property
    def _popularity(self) -> Tensor:
        return torch.log(self.popularity.float() / self.popularity.sum().clamp(min=1) + 1e-6)

    @cached_property
    def _lately(self) -> Tensor:
        return torch.log(self.lately.float() / self.lately.sum().clamp(min=1) + 1e-6)


def _said(found: Candidates, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Whether a nominator named the candidate, its score and its rank as 1 / (1 + rank / 10) [B, K] each."""
    score, rank = found.columns[f"{name}.score"], found.columns[f"{name}.rank"]
    named = ~torch.isnan(rank)
    return (
        named.float(),
        torch.nan_to_num(score, nan=0.0),
        torch.nan_to_num(1.0 / (1.0 + rank / 10.0), nan=0.0),
    )
