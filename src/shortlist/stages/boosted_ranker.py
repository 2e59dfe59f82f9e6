"""Boosted ranker: gradient-boosted trees over ranking features, codes of text columns and tags."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.data import Candidates, Query
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.stages.calibrated import Calibration
from shortlist.stages.ranking_features import EXTRAS, FeatureScorer, RankingFeatures

PREFIX = "trees."


@dataclass(frozen=True, eq=False, repr=False)
class BoostedScorer(FeatureScorer):
    """Scores candidates by gradient-boosted trees; LightGBM trains them and is not needed to score."""

    trees: Trees

    def raw(self, query: Query, found: Candidates) -> Tensor:
        return self.trees(tree_features(self.features, query, found))

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), **with_prefix(PREFIX, self.trees.tensors())}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        features = RankingFeatures.build({"columns": (), **settings}, tensors)
        nodes, nan_is_0 = without_prefix(PREFIX, tensors), EXTRAS not in tensors
        trees = Trees.build(nodes, n_tree_features(features), nan_is_0)
        return cls(features, trees, calibration=Calibration.of(tensors), **cls.own_settings(settings))


def tree_features(features: RankingFeatures, query: Query, found: Candidates) -> Tensor:
    """The inputs of the trees [B, K, F]: ranking features, codes of text columns (frequent values first), tags."""
    assert features.columns is not None
    rows = found.items.clamp(min=0)
    codes, tags = features.columns.codes[rows].to(torch.float32), features.columns.multi_hot[rows]
    return torch.cat([features(query, found), codes, tags], dim=-1)


def n_tree_features(features: RankingFeatures) -> int:
    """The number of inputs of the trees."""
    assert features.columns is not None
    return len(features.names) + features.columns.codes.shape[1] + features.columns.multi_hot.shape[1]
