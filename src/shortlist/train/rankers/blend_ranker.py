"""The trainer of the blend ranker: a network, trees, and weights of these and of the nominators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.errors import MissingExtraError
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import setting, settings_of
from shortlist.stages import BlendScorer, FeatureRanker, RankingFeatures
from shortlist.stages.blend_ranker import MIN_DEVIATION
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.objectives.registry import ObjectiveSettings
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer
from shortlist.train.rankers.calibrate import calibrated
from shortlist.train.rankers.ensemble import ensemble
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from shortlist.train.rankers.ranker import RankerTrainer
from shortlist.train.rankers.ranking_features import ranking_features, renewed_features
from shortlist.train.rankers.training_data.training_set import ListSampling, TrainingSet

OBJECTIVE = tuple(one.name for one in settings_of(ObjectiveSettings))  # of the network; trees have their own


@dataclass(frozen=True)
class BlendRankerTrainer(RankerTrainer):
    """Trains a network and boosted trees on the same requests, then chooses weights of these and of the nominators.

    The weights are chosen on the validation requests of the split, with the candidates of the nominators that are
    measured; without any, on those of the ranker. A refit keeps them. `epochs`, `learning_rate`, `weight_decay`,
    `patience` and `objective` are those of the network; `minutes` is for both. Without LightGBM there are no
    trees, and the training history says so.
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
        known = self._known(context, training_set.what)
        features, network, history = self._network(settings, context, training_set, known)
        trees, reason = (
            self._trees(settings, context, training_set) if known.get("trees", 1.0) else (None, ())
        )
        count = 2 + len(features.scored)
        ones = torch.ones(count, dtype=torch.float64)
        stage = BlendScorer(
            features, network, trees, ones / count, ones, **BlendScorer.own_settings(settings)
        )
        stage = _weighted(stage, training_set.validation or training_set.training, known)
        return stage, replace(history, weights=weights_of(stage), warnings=reason)

    def tune(
        self, stage: BlendScorer, batches: Sequence[RequestBatch], what: str
    ) -> tuple[BlendScorer, Mapping[str, float]]:
        """The stage with weights chosen on these requests; parts with weight 0 are removed."""
        tuned = _weighted(stage, batches, {})
        network, trees, *_ = tuned.weights.tolist()
        tuned = tuned.renewed(
            network=tuned.network if network else None, trees=tuned.trees if trees else None, calibration=None
        )
        return calibrated(tuned, self.calibrate, batches, what), weights_of(tuned)

    def renew(self, stage: BlendScorer, context: TrainContext) -> BlendScorer:
        """The same ranker with the counts of all events."""
        return stage.renewed(features=renewed_features(stage.features, context, self.days))

    def _known(self, context: TrainContext, what: str) -> dict[str, float]:
        """The weights of the stage that this one continues; empty without one."""
        before = context.warm.get(what)
        if not isinstance(before, BlendScorer):
            return {}
        return dict(zip(before.components, before.weights.tolist(), strict=True))

    def _network(
        self,
        settings: Mapping[str, Any],
        context: TrainContext,
        training_set: TrainingSet,
        known: Mapping[str, float],
    ) -> tuple[RankingFeatures, FeatureMLP | None, TrainingHistory]:
        """The features, and the trained network unless its weight is known to be 0."""
        if not known.get("network", 1.0):
            features = ranking_features(settings, context, self.days, training_set.what)
            return features, None, TrainingHistory(0, self.epochs)
        ranker, history = self._network_trainer().fit_stage(settings, context, training_set)
        assert isinstance(ranker, FeatureRanker)
        return ranker.features, ranker.network, history

    def _network_trainer(self) -> FeatureRankerTrainer:
        own = ("epochs", "learning_rate", "weight_decay", "patience", "hidden", "dropout", "days")
        settings = {name: getattr(self, name) for name in own} | {"minutes": self.minutes / 2}
        return FeatureRankerTrainer(**self._sampling(), **settings)

    def _trees(
        self, settings: Mapping[str, Any], context: TrainContext, training_set: TrainingSet
    ) -> tuple[Trees | None, tuple[str, ...]]:
        """The trees, or None and the reason why there are none."""
        own = {name: getattr(self, name) for name in ("leaves", "min_leaf_size", "days")}
        try:
            limit = self.minutes / 2
            sampling = self._sampling(without=OBJECTIVE)
            trainer = BoostedRankerTrainer(**sampling, epochs=self.trees, minutes=limit, **own)
        except MissingExtraError as error:
            return None, (f"{training_set.what}: the network was trained without boosted trees: {error}",)
        return trainer.fit_stage(settings, context, training_set)[0].trees, ()

    def _sampling(self, without: tuple[str, ...] = ()) -> dict[str, Any]:
        names = [one.name for one in settings_of(ListSampling) if one.name not in without]
        return {name: getattr(self, name) for name in names}


def weights_of(stage: BlendScorer) -> dict[str, float]:
    """The weights of the components that have one."""
    pairs = zip(stage.components, stage.weights.tolist(), strict=True)
    return {name: round(weight, 4) for name, weight in pairs if weight > 0}


@torch.no_grad()
def _weighted(stage: BlendScorer, batches: Sequence[RequestBatch], known: Mapping[str, float]) -> BlendScorer:
    """The stage with the weights of the same components in `known`, or else with those chosen on these requests."""
    scores = [_scores(stage, one) for one in batches]
    deviations = _deviations(scores, batches)
    if set(known) == set(stage.components):
        weights = torch.tensor([known[name] for name in stage.components], dtype=torch.float64)
    else:
        usable = [score is not None for score in stage.component_scores(batches[0].query, batches[0].found)]
        weights = ensemble([one / deviations.float() for one in scores], batches, usable)
    return stage.renewed(weights=weights, deviations=deviations)


def _scores(stage: BlendScorer, batch: RequestBatch) -> Tensor:
    """The scores of all components [B, K, C], 0 for one that does not exist."""
    parts = stage.component_scores(batch.query, batch.found)
    empty = torch.zeros(batch.found.shape)
    return torch.stack([empty if score is None else score().float() for score in parts], dim=-1)


def _deviations(scores: Sequence[Tensor], batches: Sequence[RequestBatch]) -> Tensor:
    """The standard deviation of each component around the mean of its request [C], 1 where it does not differ."""
    squares, count = torch.zeros(scores[0].shape[-1], dtype=torch.float64), 0
    for one, own in zip(batches, scores, strict=True):
        known = own.double().masked_fill(~one.found.valid[..., None], torch.nan)
        squares += (known - known.nanmean(1, keepdim=True)).square().nansum((0, 1))
        count += int(one.found.valid.sum())
    deviations = (squares / max(count, 1)).sqrt()
    return deviations.where(deviations > MIN_DEVIATION, 1.0)
