"""The trainer of the MLP ranker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.settings import setting, settings_of
from shortlist.stages import MLPScorer
from shortlist.train.context import TrainContext
from shortlist.train.rankers.ranker import NetworkRankerTrainer
from shortlist.train.rankers.ranking_features import ranking_features, renewed_features
from shortlist.train.rankers.training_data.training_set import TrainingSet


@dataclass(frozen=True)
class MLPRankerTrainer(NetworkRankerTrainer, MLPRankerConfig):
    """A network over embeddings of items and history, ranking features and catalogue columns."""

    title: ClassVar[str] = "mlp-ranker"

    positives_per_request: int = 4
    days: float = setting(30.0, "Days of recent popularity.", least=0, most=100_000)

    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> MLPScorer:
        features = ranking_features(settings, context, self.days, training_set.what)
        assert features.columns is not None
        config = MLPRankerConfig(
            n_items=len(context.catalog),
            n_features=len(features.names),
            values=features.columns.sizes,
            n_tags=features.columns.n_tags,
            **{one.name: getattr(self, one.name) for one in settings_of(MLPRankerConfig)},
        )
        network = MLPRanker(config)
        batches = training_set.training
        network.fit_scale(torch.cat([features(one.query, one.found)[one.found.valid] for one in batches]))
        return MLPScorer(features, network, **MLPScorer.own_settings(settings))

    def network(self, stage: MLPScorer) -> MLPRanker:
        return stage.network

    def renew(self, stage: MLPScorer, context: TrainContext) -> MLPScorer:
        """The same ranker with the counts of all events."""
        return stage.renewed(features=renewed_features(stage.features, context, self.days))
