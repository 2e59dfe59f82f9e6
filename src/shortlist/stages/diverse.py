"""A slate that is not ten times the same: maximal marginal relevance."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.grammar import Knob, Selector


@dataclass(frozen=True, eq=False, repr=False)
class Diverse(Selector):
    """Greedy choice by (1 - strength) * relevance - strength * likeness to what is already chosen.

    Relevance is the score, moved to 0..1 within the request; likeness is the cosine of item vectors, at least 0.
    """

    vectors: Tensor  # [N, D] of unit length
    strength: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise ConfigError(
                f"diverse {self.title!r}: strength must lie between 0 and 1, got {self.strength}"
            )

    def knobs(self) -> tuple[Knob, ...]:
        return (*super().knobs(), *([Knob("strength", self.strength, "off")] if self.strength > 0 else []))

    def select(self, query: Query, found: Candidates) -> Tensor:
        if found.shape[1] == 0:
            return found.items
        relevance = _unit(found)  # [B, K]
        vectors = self.vectors[found.items.clamp(min=0)]  # [B, K, D]
        likeness = torch.zeros_like(relevance)
        free = found.valid.clone()
        chosen = []
        for _ in range(min(self.k, found.shape[1])):
            value = (1 - self.strength) * relevance - self.strength * likeness
            best = value.masked_fill(~free, -torch.inf).argmax(dim=1, keepdim=True)  # [B, 1]
            chosen.append(torch.where(free.gather(1, best), best, -1))
            free = free.scatter(1, best, False)
            picked = vectors.gather(1, best[:, :, None].expand(-1, -1, vectors.shape[2]))  # [B, 1, D]
            likeness = torch.maximum(likeness, torch.einsum("bkd,bod->bk", vectors, picked))
        return torch.cat(chosen, dim=1)


def _unit(found: Candidates) -> Tensor:
    """Scores moved to 0..1 within each request; what is no finite number gets less than that [B, K]."""
    finite = torch.isfinite(found.scores) & found.valid
    low = found.scores.masked_fill(~finite, torch.inf).amin(1, keepdim=True)
    high = found.scores.masked_fill(~finite, -torch.inf).amax(1, keepdim=True)
    scaled = (found.scores - low) / (high - low).clamp(min=1e-12)
    return torch.where(finite, scaled, -2.0)
