"""The trainer of the blend ranker: a network, trees, and the weight of each by the validation requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.errors import MissingExtraError
from shortlist.metrics.ranking import ndcg
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import setting, settings_of
from shortlist.stages import BlendScorer, FeatureRanker, RankingFeatures
from shortlist.stages.boosted_ranker import tree_features
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from shortlist.train.rankers.ranker import RankerTrainer
from shortlist.train.rankers.ranking_features import renewed_features
from shortlist.train.rankers.training_set import ListSampling, TrainingSet

WEIGHTS = (0.5, 0.25, 0.75, 0.0, 1.0)  # of the network; of equally good ones the first is chosen
DEPTH = 20  # the weight is chosen by NDCG@20


@dataclass(frozen=True)
class BlendRankerTrainer(RankerTrainer):
    """Trains a network and boosted trees on the same requests, then chooses their weights by NDCG@20.

    `epochs`, `learning_rate`, `weight_decay` and `patience` are those of the network. Without LightGBM the network is
    trained alone, and the training history says so.
    """

    title: ClassVar[str] = "blend-ranker"
    targets_per_item: ClassVar[float] = 0.0  # no parameter belongs to an item

    negatives: str = "all-candidates"
    epochs: int = FeatureRankerTrainer.epochs
    learning_rate: float = FeatureRankerTrainer.learning_rate
    patience: int = FeatureRankerTrainer.patience
    hidden: tuple[int, ...] = setting((64, 32), "Widths of the hidden layers.", least=1, most=65_536)
    dropout: float = setting(FeatureRankerTrainer.dropout, "Dropout rate.", least=0, most=0.95)
    trees: int = setting(BoostedRankerTrainer.epochs, "Largest number of trees.", least=1, most=100_000)
    leaves: int = setting(
        BoostedRankerTrainer.leaves, "Largest number of leaves of a tree.", least=2, most=512
    )
    min_leaf_size: int = setting(
        BoostedRankerTrainer.min_leaf_size, "Least number of candidates in a leaf.", least=1, most=1e9
    )
    days: float = setting(30.0, "Days of recent popularity.", least=0, most=100_000)

    def fit_stage(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[BlendScorer, TrainingHistory]:
        ranker, history = self._network().fit_stage(settings, context, training_set)
        assert isinstance(ranker, FeatureRanker)
        trees, reason = self._trees(settings, context, training_set)
        parts = (ranker.network, trees)
        weight, factors = chosen_weight(ranker.features, *parts, training_set.validation)
        kept = (ranker.network if weight > 0 else None, trees if weight < 1 else None)
        stage = BlendScorer(ranker.features, *kept, factors, **BlendScorer.own_settings(settings))
        return stage, replace(history, network_weight=weight, warnings=reason)

    def renew(self, stage: BlendScorer, context: TrainContext) -> BlendScorer:
        """The same ranker with the counts of all events."""
        return stage.renewed(features=renewed_features(stage.features, context, self.days))

    def _network(self) -> FeatureRankerTrainer:
        own = ("epochs", "learning_rate", "weight_decay", "patience", "hidden", "dropout", "days")
        return FeatureRankerTrainer(**self._sampling(), **{name: getattr(self, name) for name in own})

    def _trees(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[Trees | None, tuple[str, ...]]:
        """The trees, or None and the reason why there are none."""
        own = {name: getattr(self, name) for name in ("leaves", "min_leaf_size", "days")}
        try:
            trainer = BoostedRankerTrainer(**self._sampling(), epochs=self.trees, **own)
        except MissingExtraError as error:
            return None, (f"{training_set.what}: the network was trained without boosted trees: {error}",)
        return trainer.fit_stage(settings, context, training_set)[0].trees, ()

    def _sampling(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in settings_of(ListSampling)}


@torch.no_grad()
def chosen_weight(
    features: RankingFeatures, network: FeatureMLP, trees: Trees | None, validation: Sequence[RequestBatch]
) -> tuple[float, Tensor]:
    """The weight of the network with the best NDCG, and the factors of both scores; 1 without trees."""
    if trees is None:
        return 1.0, torch.tensor([1.0, 0.0], dtype=torch.float64)
    inputs = [tree_features(features, one.query, one.found) for one in validation]
    scores = [(network(one[..., : len(features.names)]), trees(one)) for one in inputs]
    deviations = [_deviation([one[part] for one in scores], validation) for part in (0, 1)]
    choices = {one: _factors(one, deviations) for one in WEIGHTS}
    weight = max(WEIGHTS, key=lambda one: _quality(scores, validation, choices[one]))
    return weight, choices[weight]


def _factors(weight: float, deviations: Sequence[float]) -> Tensor:
    return torch.tensor([weight / deviations[0], (1 - weight) / deviations[1]], dtype=torch.float64)


def _deviation(scores: Sequence[Tensor], validation: Sequence[RequestBatch]) -> float:
    """The standard deviation of scores around the mean of their request, 1 where they do not differ."""
    squares, count = 0.0, 0
    for one, own in zip(validation, scores, strict=True):
        known = own.double().masked_fill(~one.found.valid, torch.nan)
        squares += float((known - known.nanmean(1, keepdim=True)).square().nansum())
        count += int(one.found.valid.sum())
    return (squares / max(count, 1)) ** 0.5 or 1.0


def _quality(
    scores: Sequence[tuple[Tensor, Tensor]], validation: Sequence[RequestBatch], factors: Tensor
) -> float:
    """The sum of NDCG over the validation requests."""
    total = 0.0
    for one, (network, trees) in zip(validation, scores, strict=True):
        ranked = one.found.score(network * float(factors[0]) + trees * float(factors[1])).best(DEPTH)
        items = ranked.items.masked_fill(~ranked.valid, -1)
        total += float(ndcg(items, one.targets, DEPTH).nansum())
    return total
