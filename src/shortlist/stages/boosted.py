"""A closer look at fewer candidates: boosted trees over features and columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import without_prefix
from shortlist.data import Candidates, Query
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.stages.calibrated import Calibrated, Calibration
from shortlist.stages.sheet import Sheet

PREFIX = "trees."


@dataclass(frozen=True, eq=False, repr=False)
class BoostedScorer(Calibrated):
    """Scores candidates by trees over a sheet and the codes of its texts; answers without what grew them."""

    extra_settings: ClassVar[Mapping[str, Any]] = Sheet.settings_of

    sheet: Sheet
    trees: Trees

    def raw(self, query: Query, found: Candidates) -> Tensor:
        return self.trees(read_sheet(self.sheet, query, found))

    def settings(self) -> dict[str, Any]:
        return super().settings() | self.sheet.settings()

    def tensors(self) -> dict[str, Tensor]:
        nodes = {PREFIX + name: one for name, one in self.trees.tensors().items()}
        return {**super().tensors(), **self.sheet.tensors(), **nodes}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        sheet = Sheet.build(settings, tensors)
        trees = Trees.build(without_prefix(PREFIX, tensors), sheet.size + sheet.columns.codes.shape[1])
        own = {name: one for name, one in settings.items() if name not in Sheet.settings_of}
        return cls(sheet, trees, calibration=Calibration.of(tensors), **own)


def read_sheet(sheet: Sheet, query: Query, found: Candidates) -> Tensor:
    """All that trees are told of candidates [B, K, F]: the sheet, then the codes of texts, the frequent first."""
    codes = sheet.columns.codes[found.items.clamp(min=0)]
    return torch.cat([sheet(query, found), codes.to(torch.float32)], dim=-1)
