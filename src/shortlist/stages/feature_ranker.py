"""Feature ranker: a small network over ranking features without catalogue columns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.artifact.tensor_checks import check_shape
from shortlist.data import Candidates, Query
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.stages.calibrated import Calibration
from shortlist.stages.ranking_features import FeatureScorer, RankingFeatures

PREFIX = "network."


@dataclass(frozen=True, eq=False, repr=False)
class FeatureRanker(FeatureScorer):
    """Scores candidates by a network over features, every nominator's score and rank among them."""

    network: FeatureMLP

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        super().check_catalogue(n_items, nominators)
        check_shape("network.mean", self.network.mean, len(self.features.names))

    def raw(self, query: Query, found: Candidates) -> Tensor:
        scores: Tensor = self.network(self.features(query, found))
        return scores

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), **with_prefix(PREFIX, self.network.state_dict())}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        features = RankingFeatures.build(settings, tensors)
        network = FeatureMLP.of(without_prefix(PREFIX, tensors))
        return cls(features, network, calibration=Calibration.of(tensors), **cls.own_settings(settings))
