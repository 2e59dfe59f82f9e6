"""Which trainer makes which type of stage."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from shortlist.grammar import Stage
from shortlist.train.context import TrainContext
from shortlist.train.jtr import JTRTrainer
from shortlist.train.models.bert4rec import BERT4RecTrainer
from shortlist.train.models.co_visit import CoVisitTrainer
from shortlist.train.models.counts import (
    AvailableTrainer,
    DiverseTrainer,
    ExploreTrainer,
    PopularTrainer,
    RecentTrainer,
    SeenTrainer,
)
from shortlist.train.models.din import DINTrainer
from shortlist.train.models.ease import EASETrainer
from shortlist.train.models.fmlp import FMLPTrainer
from shortlist.train.models.gru4rec import GRU4RecTrainer
from shortlist.train.models.item_knn import ItemKNNTrainer
from shortlist.train.models.last_click import LastClickTrainer
from shortlist.train.models.lightgcn import LightGCNTrainer
from shortlist.train.models.mf import MFTrainer
from shortlist.train.models.popular_window import PopularWindowTrainer
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.models.sum_pooling import SumPoolingTrainer
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.models.two_tower import TowerTrainer
from shortlist.train.models.youtube_dnn import YouTubeDNNTrainer
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer
from shortlist.train.rankers.din_ranker import DINRankerTrainer
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from shortlist.train.rankers.mlp_ranker import MLPRankerTrainer
from shortlist.train.rankers.model_scorer import ModelScorerTrainer
from shortlist.train.rankers.two_tower_scorer import TowerScorerTrainer
from shortlist.train.tree.trainer import TreeTrainer


class Trainer(Protocol):
    """Makes a stage from its settings and the material; its own fields are how it trains."""

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Stage: ...


@runtime_checkable
class Renewer(Protocol):
    """A trainer whose stage learned in the rehearsal, and can be told afterwards what all events say."""

    def renew(self, stage: Any, context: TrainContext) -> Stage: ...


MODEL_TRAINERS: Mapping[str, type[ModelTrainer]] = {
    "bert4rec": BERT4RecTrainer,
    "din": DINTrainer,
    "ease": EASETrainer,
    "fmlp": FMLPTrainer,
    "gru4rec": GRU4RecTrainer,
    "item-knn": ItemKNNTrainer,
    "last-click": LastClickTrainer,
    "lightgcn": LightGCNTrainer,
    "mf": MFTrainer,
    "popular-in-window": PopularWindowTrainer,
    "sasrec": SASRecTrainer,
    "sum-pooling": SumPoolingTrainer,
    "youtube-dnn": YouTubeDNNTrainer,
}
"""Trainers of models, which name what they score best."""

TRAINERS: Mapping[str, type[Trainer]] = {
    "popular": PopularTrainer,
    "recent": RecentTrainer,
    "co-visit": CoVisitTrainer,
    "two-tower": TowerTrainer,
    "tree": TreeTrainer,
    "jtr": JTRTrainer,
    **MODEL_TRAINERS,
    "seen": SeenTrainer,
    "available": AvailableTrainer,
    "two-tower-scorer": TowerScorerTrainer,
    "model-scorer": ModelScorerTrainer,
    "feature-ranker": FeatureRankerTrainer,
    "din-ranker": DINRankerTrainer,
    "mlp-ranker": MLPRankerTrainer,
    "boosted-ranker": BoostedRankerTrainer,
    "diverse": DiverseTrainer,
    "explore": ExploreTrainer,
}
