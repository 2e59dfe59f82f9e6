"""MLP ranker: a network over embeddings of items and history, ranking features and catalogue columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.stages.calibrated import Calibration
from shortlist.stages.catalog_columns import CatalogColumns
from shortlist.stages.ranking_features import FeatureScorer, RankingFeatures

CONFIG = "config"  # the sizes of the network, as JSON bytes
PREFIX = "network."


@dataclass(frozen=True, eq=False, repr=False)
class MLPScorer(FeatureScorer):
    """Scores candidates by a network over embeddings, ranking features and catalogue columns."""

    network: MLPRanker

    @property
    def columns(self) -> CatalogColumns:
        assert self.features.columns is not None
        return self.features.columns

    def raw(self, query: Query, found: Candidates) -> Tensor:
        rows = found.items.clamp(min=0)
        codes, tags = self.columns.codes[rows], self.columns.tags[rows]
        scores: Tensor = self.network(query.history, rows, self.features(query, found), codes, tags)
        return scores

    def tensors(self) -> dict[str, Tensor]:
        weights = {name: one.detach() for name, one in self.network.state_dict().items()}
        config = {CONFIG: json_to_tensor(self.network.settings())}
        return {**super().tensors(), **with_prefix(PREFIX, weights), **config}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        config = json_from_tensor(tensors, CONFIG, "mlp-ranker")
        network = MLPRanker.build(config, without_prefix(PREFIX, tensors))
        features = RankingFeatures.build({"columns": (), **settings}, tensors)
        made = cls(features, network, calibration=Calibration.of(tensors), **cls.own_settings(settings))
        made._check_sizes(network.config)
        return made

    def _check_sizes(self, config: MLPRankerConfig) -> None:
        columns = self.columns
        sizes = (len(columns.numbers), len(self.features.names), columns.sizes, columns.n_tags)
        expected = (config.n_items, config.n_features, config.values, config.n_tags)
        if sizes != expected:
            raise ArtifactError(
                f"mlp-ranker: the network expects {expected} (items, features, values, tags), the features have "
                f"{sizes}; make the artifact again"
            )
