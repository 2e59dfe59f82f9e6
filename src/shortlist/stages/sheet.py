"""All that a ranker over features is told of a candidate: features of the request, and the catalogue's columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.stages.columns import Columns
from shortlist.stages.features import Features


@dataclass(frozen=True, eq=False)
class Sheet:
    """Numbers [B, K, F] for candidates: what nominators said, counts, fit to the history, numbers of the catalogue."""

    settings_of: ClassVar[Mapping[str, Any]] = {"nominators": list[str], "columns": list[str]}

    features: Features
    columns: Columns

    @property
    def size(self) -> int:
        """How many numbers there are for a candidate."""
        return len(self.features.names) + self.columns.numbers.shape[1] + self.columns.codes.shape[1] + 1

    def __call__(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)
        said = self.features(query, found)
        return torch.cat(
            [said, self.columns.numbers[rows], self.columns.likeness(query.history, rows)], dim=-1
        )

    def settings(self) -> dict[str, Any]:
        """Whose word it holds, and the columns it reads."""
        return {"nominators": list(self.features.nominators), "columns": list(self.columns.names)}

    def tensors(self) -> dict[str, Tensor]:
        return self.features.tensors() | self.columns.tensors()

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The sheet back from its settings and tensors."""
        if missing := [name for name in ("popularity", "lately", "category") if name not in tensors]:
            raise ArtifactError(f"ranker: its tensors lack {missing[0]!r}; make the artifact again")
        known = (tensors[name] for name in ("popularity", "lately", "category"))
        features = Features(tuple(settings.get("nominators", ())), *known)
        made = cls(features, Columns.build(settings.get("columns", ()), tensors))
        if not made._sound():
            raise ArtifactError(
                "ranker: expected a count and a category, from 0, for every item; make the artifact again"
            )
        return made

    def _sound(self) -> bool:
        told = self.features.tensors().values()
        size = (len(self.columns.numbers),)
        return self.features.category.dtype == torch.int64 and all(
            one.shape == size and not bool((one < 0).any() | one.isnan().any()) for one in told
        )
