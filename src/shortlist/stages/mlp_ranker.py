"""A closer look at fewer candidates: a network over ids, histories, columns and what the nominators said."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, without_prefix
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.stages.calibrated import Calibrated, Calibration
from shortlist.stages.sheet import Sheet

ABOUT = "about"  # the sizes of the network, as JSON in bytes
PREFIX = "network."


@dataclass(frozen=True, eq=False, repr=False)
class MLPScorer(Calibrated):
    """Scores candidates by a network over a sheet and over who they are."""

    extra_settings: ClassVar[Mapping[str, Any]] = Sheet.settings_of

    sheet: Sheet
    network: MLPRanker

    def raw(self, query: Query, found: Candidates) -> Tensor:
        rows, columns = found.items.clamp(min=0), self.sheet.columns
        features = self.sheet(query, found)
        scores: Tensor = self.network(query.history, rows, features, columns.codes[rows], columns.tags[rows])
        return scores

    def settings(self) -> dict[str, Any]:
        return super().settings() | self.sheet.settings()

    def tensors(self) -> dict[str, Tensor]:
        weights = {PREFIX + name: one.detach() for name, one in self.network.state_dict().items()}
        return {
            **super().tensors(),
            **self.sheet.tensors(),
            **weights,
            ABOUT: json_to_tensor(self.network.settings()),
        }

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        network = MLPRanker.build(json_from_tensor(tensors, ABOUT, "mlp-ranker"), without_prefix(PREFIX, tensors))
        sheet = Sheet.build(settings, tensors)
        _check_fit(network.config, sheet)
        own = {name: one for name, one in settings.items() if name not in Sheet.settings_of}
        return cls(sheet, network, calibration=Calibration.of(tensors), **own)


def _check_fit(config: MLPRankerConfig, sheet: Sheet) -> None:
    columns = sheet.columns
    told = (len(columns.numbers), sheet.size, columns.sizes, columns.n_tags)
    read = (config.n_items, config.n_features, config.values, config.n_tags)
    if told != read:
        raise ArtifactError(
            f"mlp-ranker: its network reads {read} (items, features, values, tags), its sheet tells {told}; "
            "make the artifact again"
        )
