"""DIN ranker: attention of each candidate on the history."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.data import Candidates, Query
from shortlist.models.ranking.din_ranker import DINRanker
from shortlist.stages.calibrated import Calibrated, Calibration

CONFIG = "config"  # the sizes of the model, as JSON bytes
PREFIX = "model."


@dataclass(frozen=True, eq=False, repr=False)
class DINScorer(Calibrated):
    """The scores of a DIN ranker, from the history and the candidate alone."""

    model: DINRanker

    def raw(self, query: Query, found: Candidates) -> Tensor:
        device = self.model.device
        scores = self.model.score_rows(query.history.to(device), found.items.to(device))
        return scores.to(found.items.device)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        self.model.check_catalogue(n_items)

    def tensors(self) -> dict[str, Tensor]:
        weights = {name: one.detach() for name, one in self.model.state_dict().items()}
        config = {CONFIG: json_to_tensor(self.model.settings())}
        return {**super().tensors(), **with_prefix(PREFIX, weights), **config}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        config = json_from_tensor(tensors, CONFIG, "din-ranker")
        model = DINRanker.build(config, without_prefix(PREFIX, tensors))
        return cls(model, calibration=Calibration.of(tensors), **settings)
