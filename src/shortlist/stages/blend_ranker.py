"""Blend ranker: a network, gradient-boosted trees and the scores of nominators."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, partial
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
from shortlist.stages.ranking_features import FeatureScorer, RankingFeatures, standardised

NETWORK, TREES, BLEND = "network.", "trees.", "blend."
MIN_DEVIATION = 1e-9
WEIGHTS, DEVIATIONS = "weights", "deviations"


@dataclass(frozen=True, eq=False, repr=False)
class BlendScorer(FeatureScorer):
    """Scores candidates by a weighted sum of standardised scores.

    Its components are a network and trees over the same features, and every nominator with `score_pool`.
    """

    network: FeatureMLP | None
    trees: Trees | None
    weights: Tensor  # float64 [2 + S] of network, trees and nominators
    deviations: Tensor  # float64 [2 + S] by which the components are divided

    @property
    def components(self) -> tuple[str, ...]:
        """The names of the components."""
        return components_of(self.features)

    def check_catalogue(self, n_items: int, nominators: Collection[str]) -> None:
        super().check_catalogue(n_items, nominators)
        if self.network is not None:
            check_shape("network.mean", self.network.mean, len(self.features.names))

    def raw(self, query: Query, found: Candidates) -> Tensor:
        factors = (self.weights / self.deviations).tolist()
        scores = torch.zeros(found.shape, device=found.items.device)
        for factor, score in zip(factors, self.component_scores(query, found), strict=True):
            if factor and score is not None:
                scores = scores + factor * score()
        return scores

    def component_scores(self, query: Query, found: Candidates) -> list[Callable[[], Tensor] | None]:
        """For every component a function that computes its scores [B, K]; None where it does not exist."""
        inputs = cache(lambda: tree_features(self.features, query, found))
        network, trees = self.network, self.trees
        count = len(self.features.names)
        return [
            None if network is None else lambda: network(inputs()[..., :count]),
            None if trees is None else lambda: trees(inputs()),
            *(partial(standardised, found, name) for name in self.features.scored),
        ]

    def tensors(self) -> dict[str, Tensor]:
        network = {} if self.network is None else with_prefix(NETWORK, self.network.state_dict())
        trees = {} if self.trees is None else with_prefix(TREES, self.trees.tensors())
        own = {WEIGHTS: self.weights, DEVIATIONS: self.deviations}
        return {**super().tensors(), **network, **trees, **with_prefix(BLEND, own)}

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        features = RankingFeatures.build({"columns": (), **settings}, tensors)
        weights, nodes = without_prefix(NETWORK, tensors), without_prefix(TREES, tensors)
        network = FeatureMLP.of(weights) if weights else None
        trees = Trees.build(nodes, n_tree_features(features)) if nodes else None
        blend = without_prefix(BLEND, tensors)
        count = len(components_of(features))
        numbers = (_checked(blend.get(name), count, name) for name in (WEIGHTS, DEVIATIONS))
        own = cls.own_settings(settings)
        return cls(features, network, trees, *numbers, calibration=Calibration.of(tensors), **own)


def components_of(features: RankingFeatures) -> tuple[str, ...]:
    """The components of a blend over these features."""
    return ("network", "trees", *features.scored)


def _checked(numbers: Tensor | None, count: int, name: str) -> Tensor:
    if numbers is None or numbers.shape != (count,) or numbers.dtype != torch.float64:
        raise ArtifactError(f"blend-ranker: expected {count} {name}; the artifact is damaged, make it again")
    least = 0.0 if name == WEIGHTS else MIN_DEVIATION
    if not bool((numbers.isfinite() & (numbers >= least)).all()):
        raise ArtifactError(
            f"blend-ranker: {name} must be finite and at least {least:g}; the artifact is damaged, make it again"
        )
    return numbers
