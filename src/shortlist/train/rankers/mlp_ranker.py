"""The trainer of the MLP ranker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.settings import setting
from shortlist.stages import MLPScorer
from shortlist.train.context import TrainContext
from shortlist.train.rankers.ranker import NetworkRankerTrainer
from shortlist.train.rankers.ranking_features import ranking_features, renewed_features
from shortlist.train.rankers.training_set import TrainingSet


@dataclass(frozen=True)
class MLPRankerTrainer(NetworkRankerTrainer):
    """A network over embeddings of items and history, ranking features and catalogue columns."""

    title: ClassVar[str] = "mlp-ranker"

    positives_per_request: int = 4
    width: int = setting(32, "Width of the item embeddings.", least=1, most=8192)
    value_width: int = setting(8, "Width of the embeddings of text values and tags.", least=1, most=8192)
    hidden: tuple[int, ...] = setting((128, 64), "Widths of the hidden layers.", least=1, most=65_536)
    max_history: int = setting(69, "Latest items of the history that are used.", least=1, most=10_000)
    dropout: float = setting(0.1, "Dropout rate.", least=0, most=0.95)
    days: float = setting(30.0, "Days of recent popularity.", least=0, most=100_000)

    def untrained(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> MLPScorer:
        features = ranking_features(settings, context, self.days, training_set.what)
        assert features.columns is not None
        network = MLPRanker(
            MLPRankerConfig(
                n_items=len(context.catalog),
                n_features=len(features.names),
                values=features.columns.sizes,
                n_tags=features.columns.n_tags,
                width=self.width,
                value_width=self.value_width,
                hidden=self.hidden,
                max_history=self.max_history,
                dropout=self.dropout,
            )
        )
        batches = training_set.training
        network.fit_scale(torch.cat([features(one.query, one.found)[one.found.valid] for one in batches]))
        return MLPScorer(features, network, **MLPScorer.own_settings(settings))

    def network(self, stage: MLPScorer) -> MLPRanker:
        return stage.network

    def renew(self, stage: MLPScorer, context: TrainContext) -> MLPScorer:
        """The same ranker with the counts of all events."""
        return stage.renewed(features=renewed_features(stage.features, context, self.days))
