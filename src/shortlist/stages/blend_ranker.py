"""Blend ranker: a network and gradient-boosted trees over the same ranking features."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from shortlist.artifact.json_tensor import with_prefix, without_prefix
from shortlist.artifact.tensor_checks import check_shape
from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.stages.boosted_ranker import n_tree_features, tree_features
from shortlist.stages.calibrated import Calibration
from shortlist.stages.ranking_features import FeatureScorer, RankingFeatures

NETWORK, TREES = "network.", "trees."
FACTORS = "factors"


@dataclass(frozen=True, eq=False, repr=False)
class BlendScorer(FeatureScorer):
    """Scores candidates by the weighted sum of a network and gradient-boosted trees, or by one of them."""

    network: FeatureMLP | None
    trees: Trees | None
    factors: Tensor  # float64 [2] of the network's scores and of the trees': weight / standard deviation

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        super().check_catalogue(n_items, nominators)
        if self.network is not None:
            check_shape("network.mean", self.network.mean, len(self.features.names))

    def raw(self, query: Query, found: Candidates) -> Tensor:
        inputs = tree_features(self.features, query, found)
        network, trees = self.factors.tolist()
        scores = torch.zeros(found.shape, device=inputs.device)
        if self.network is not None:
            scores = scores + network * self.network(inputs[..., : len(self.features.names)])
        if self.trees is not None:
            scores = scores + trees * self.trees(inputs)
        return scores

    def tensors(self) -> dict[str, Tensor]:
        network = {} if self.network is None else with_prefix(NETWORK, self.network.state_dict())
        trees = {} if self.trees is None else with_prefix(TREES, self.trees.tensors())
        return {**super().tensors(), **network, **trees, FACTORS: self.factors}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        features = RankingFeatures.build({"columns": (), **settings}, tensors)
        weights, nodes = without_prefix(NETWORK, tensors), without_prefix(TREES, tensors)
        network = FeatureMLP.of(weights) if weights else None
        trees = Trees.build(nodes, n_tree_features(features)) if nodes else None
        factors = _checked(tensors.get(FACTORS))
        own = cls.own_settings(settings)
        return cls(features, network, trees, factors, calibration=Calibration.of(tensors), **own)


def _checked(factors: Tensor | None) -> Tensor:
    if factors is None or factors.shape != (2,) or factors.dtype != torch.float64:
        raise ArtifactError("blend-ranker: expected two factors; the artifact is damaged, make it again")
    if not bool(factors.isfinite().all()):
        raise ArtifactError("blend-ranker: a factor is not finite; the artifact is damaged, make it again")
    return factors
