"""Which trainer makes which type of stage."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from shortlist.grammar import Stage
from shortlist.train.bert4rec import BERT4RecTrainer
from shortlist.train.boosted import BoostedRankerTrainer
from shortlist.train.counts import (
    AvailableTrainer,
    DiverseTrainer,
    ExploreTrainer,
    PopularTrainer,
    RecentTrainer,
    SeenTrainer,
)
from shortlist.train.covisit import CoVisitTrainer
from shortlist.train.din import DINTrainer
from shortlist.train.din_ranker import DINRankerTrainer
from shortlist.train.fmlp import FMLPTrainer
from shortlist.train.gru4rec import GRU4RecTrainer
from shortlist.train.jtr import JTRTrainer
from shortlist.train.knn import ItemKNNTrainer
from shortlist.train.last_click import LastClickTrainer
from shortlist.train.lightgcn import LightGCNTrainer
from shortlist.train.linear import EASETrainer
from shortlist.train.material import Material
from shortlist.train.mf import MFTrainer
from shortlist.train.mlp_ranker import MLPRankerTrainer
from shortlist.train.model import ModelTrainer
from shortlist.train.model_scorer import ModelScorerTrainer
from shortlist.train.pooling import SumPoolingTrainer
from shortlist.train.popular_window import PopularWindowTrainer
from shortlist.train.sasrec import SASRecTrainer
from shortlist.train.second import FeatureRankerTrainer, TowerScorerTrainer
from shortlist.train.towers import TowerTrainer
from shortlist.train.trees import TreeTrainer
from shortlist.train.youtube import YouTubeDNNTrainer


class Trainer(Protocol):
    """Makes a stage from its settings and the material; its own fields are how it trains."""

    def fit(self, settings: Mapping[str, Any], material: Material) -> Stage: ...


@runtime_checkable
class Renewer(Protocol):
    """A trainer whose stage learned in the rehearsal, and can be told afterwards what all events say."""

    def renew(self, stage: Any, material: Material) -> Stage: ...


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
