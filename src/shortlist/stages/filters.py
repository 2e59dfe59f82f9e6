"""Filters: items of the history, items a request excludes, items that are not available."""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_shape
from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.errors import ArtifactError
from shortlist.grammar import Filter
from shortlist.settings import setting


@dataclass(frozen=True, eq=False, repr=False)
class Seen(Filter):
    """Drop items among the last `last` of the history; 0 means the whole history."""

    last: int = setting(0, "Length of the recent history that is dropped; 0 for all of it.", least=0)

    def keep(self, query: Query, found: Candidates) -> Tensor:
        recent = query.history[:, -self.last :] if self.last else query.history  # [B, H]
        return ~is_in(found.items, recent)


@dataclass(frozen=True, eq=False, repr=False)
class Excluded(Filter):
    """Drop items that the request excludes: `context["exclude"]` [B, E], -1 = padding."""

    def keep(self, query: Query, found: Candidates) -> Tensor:
        excluded = query.context.get("exclude")
        return found.valid if excluded is None else ~is_in(found.items, excluded)


@dataclass(frozen=True, eq=False, repr=False)
class Available(Filter):
    """Keep items on the allow list (if there is one), not on the deny list, and with the requested category.

    `only` and `never` apply to every request; a request may ask for one category in `context["category"]` [B], -1 for
    any.
    """

    allowed: Tensor  # [N] bool, by item row
    category: Tensor  # rows of the categories: [N] one per item, or [N, C] lists, -1 = none
    only: tuple[str, ...] = setting((), "Categories that are allowed; empty for all.")
    never: tuple[str, ...] = setting((), "Categories that are not allowed.")

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        check_shape("allowed", self.allowed, n_items)
        if self.allowed.dtype != torch.bool:
            raise ArtifactError(f"tensor 'allowed': expected true or false, got {self.allowed.dtype}")
        check_shape("category", self.category, n_items, *(None for _ in self.category.shape[1:2]))

    def keep(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)
        keep = self.allowed[rows]
        if "category" in query.context:
            requested = query.context["category"][:, None]  # [B, 1]
            lists = self.category if self.category.dim() == 2 else self.category[:, None]  # [N, C]
            keep = keep & ((requested < 0) | (lists[rows] == requested[:, :, None]).any(-1))
        return keep
