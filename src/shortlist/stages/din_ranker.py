"""A closer look at fewer candidates: each looks at the history and decides what of it counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, without_prefix
from shortlist.data import Candidates, Query
from shortlist.models.ranking.din_ranker import DINRanker
from shortlist.stages.calibrated import Calibrated, Calibration

ABOUT = "about"  # the sizes of the model, as JSON in bytes
PREFIX = "model."


@dataclass(frozen=True, eq=False, repr=False)
class DINScorer(Calibrated):
    """The scores of a DIN ranker, from the history and the candidate alone."""

    model: DINRanker

    def raw(self, query: Query, found: Candidates) -> Tensor:
        return self.model.score_rows(query.history, found.items)

    def tensors(self) -> dict[str, Tensor]:
        weights = {PREFIX + name: one.detach() for name, one in self.model.state_dict().items()}
        return {**super().tensors(), **weights, ABOUT: json_to_tensor(self.model.settings())}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        model = DINRanker.build(json_from_tensor(tensors, ABOUT, "din-ranker"), without_prefix(PREFIX, tensors))
        return cls(model, calibration=Calibration.of(tensors), **settings)
