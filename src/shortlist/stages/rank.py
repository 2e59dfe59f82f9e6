"""A closer look at fewer candidates: a small network over features."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Scorer
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.stages.features import Features


@dataclass(frozen=True, eq=False, repr=False)
class FeatureRanker(Scorer):
    """Scores candidates by a network over `Features`, every nominator's score and rank among them."""

    extra_settings: ClassVar[Mapping[str, Any]] = {"nominators": list[str]}

    features: Features
    network: FeatureMLP

    @torch.no_grad()
    def score(self, query: Query, found: Candidates) -> Tensor:
        scores: Tensor = self.network(self.features(query, found))
        return scores

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"nominators": list(self.features.nominators)}

    def tensors(self) -> dict[str, Tensor]:
        network = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        return self.features.tensors() | network

    @classmethod
    def build(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        settings = dict(settings)
        known = (tensors[name] for name in ("popularity", "lately", "category"))
        features = Features(tuple(settings.pop("nominators")), *known)
        weights = {name[8:]: tensor for name, tensor in tensors.items() if name.startswith("network.")}
        return cls(features, FeatureMLP.of(weights), **settings)
