"""Diverse slates by maximal marginal relevance (Carbonell and Goldstein, 1998)."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_floats, check_shape
from shortlist.data import Candidates, Query
from shortlist.grammar import Knob, Selector
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class Diverse(Selector):
    """Greedy selection by (1 - strength) * relevance - strength * similarity to what is already selected.

    Relevance is the score, scaled to 0..1 within the request; similarity is the largest cosine to a selected item, at
    least 0.
    """

    vectors: Tensor  # [N, D] of unit length
    strength: float = setting(0.3, "Weight of diversity against the score.", least=0, most=1)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        check_shape("vectors", self.vectors, n_items, None)
        check_floats("vectors", self.vectors)

    def select(self, query: Query, found: Candidates) -> Tensor:
        if found.shape[1] == 0:
            return found.items
        relevance = _scaled(found)  # [B, K]
        vectors = self.vectors[found.items.clamp(min=0)]  # [B, K, D]
        similarity = torch.zeros_like(relevance)
        free = found.valid.clone()
        selected = []
        for _ in range(min(self.k, found.shape[1])):
            value = (1 - self.strength) * relevance - self.strength * similarity
            best = value.masked_fill(~free, -torch.inf).argmax(dim=1, keepdim=True)  # [B, 1]
            selected.append(torch.where(free.gather(1, best), best, -1))
            free = free.scatter(1, best, False)
            latest = vectors.gather(1, best[:, :, None].expand(-1, -1, vectors.shape[2]))  # [B, 1, D]
            similarity = torch.maximum(similarity, torch.einsum("bkd,bod->bk", vectors, latest))
        return torch.cat(selected, dim=1)

    def knobs(self) -> tuple[Knob, ...]:
        off = (Knob("strength", self.strength, "off"),) if self.strength > 0 else ()
        return (*super().knobs(), *off)


def _scaled(found: Candidates) -> Tensor:
    """Scores scaled to 0..1 within each request; scores that are not finite are below that [B, K]."""
    finite = torch.isfinite(found.scores) & found.valid
    low = found.scores.masked_fill(~finite, torch.inf).amin(1, keepdim=True)
    high = found.scores.masked_fill(~finite, -torch.inf).amax(1, keepdim=True)
    scaled = (found.scores - low) / (high - low).clamp(min=1e-12)
    return torch.where(finite, scaled, -2.0)
