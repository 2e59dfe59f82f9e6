"""The trainer of the feature ranker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.settings import setting
from shortlist.stages import FeatureRanker
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.ranker import NetworkRankerTrainer, Score
from shortlist.train.rankers.ranking_features import ranking_features, renewed_features
from shortlist.train.rankers.training_data.training_set import TrainingSet

ENOUGH = 40  # batches that features are standardised by


@dataclass(frozen=True)
class FeatureRankerTrainer(NetworkRankerTrainer):
    """A small network over ranking features, trained on all candidates of each request."""

    title: ClassVar[str] = "feature-ranker"
    targets_per_item: ClassVar[float] = 0.0  # no parameter belongs to an item

    negatives: str = "all-candidates"
    epochs: int = 30
    learning_rate: float = 2e-3
    patience: int = 4
    hidden: tuple[int, ...] = setting((64, 32), "Widths of the hidden layers.", least=1, most=65_536)
    dropout: float = setting(0.1, "Dropout rate.", least=0, most=0.95)
    days: float = setting(30.0, "Days of recent popularity.", least=0, most=100_000)

    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> FeatureRanker:
        features = ranking_features(settings, context, self.days, training_set.what)
        network = FeatureMLP([len(features.names), *self.hidden], self.dropout)
        network.fit_scale(
            torch.cat([features(one.query, one.found)[one.found.valid] for one in _some(training_set)])
        )
        return FeatureRanker(features, network, **FeatureRanker.own_settings(settings))

    def network(self, stage: FeatureRanker) -> FeatureMLP:
        return stage.network

    def logits(self, stage: FeatureRanker) -> Score:
        """Logits that compute the features of the same candidates once, not once per epoch."""
        known: WeakKeyDictionary[Candidates, Tensor] = WeakKeyDictionary()

        def score(query: Query, found: Candidates) -> Tensor:
            if found not in known:
                known[found] = stage.features(query, found)
            logits: Tensor = stage.network(known[found])
            return logits

        return score

    def renew(self, stage: FeatureRanker, context: TrainContext) -> FeatureRanker:
        """The same ranker with the counts of all events."""
        return stage.renewed(features=renewed_features(stage.features, context, self.days))


def _some(training_set: TrainingSet) -> list[RequestBatch]:
    """Enough batches to standardise features by."""
    return training_set.training[:ENOUGH]
