"""Which trainer makes which type of stage."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from shortlist.grammar import Stage
from shortlist.train.counts import (
    AvailableTrainer,
    DiverseTrainer,
    ExploreTrainer,
    PopularTrainer,
    RecentTrainer,
    SeenTrainer,
)
from shortlist.train.covisit import CoVisitTrainer
from shortlist.train.last_click import LastClickTrainer
from shortlist.train.material import Material
from shortlist.train.popular_window import PopularWindowTrainer
from shortlist.train.second import FeatureRankerTrainer, TowerScorerTrainer
from shortlist.train.towers import TowerTrainer
from shortlist.train.trees import TreeTrainer


class Trainer(Protocol):
    """Makes a stage from its settings and the material; its own fields are how it trains."""

    def fit(self, settings: Mapping[str, Any], material: Material) -> Stage: ...


@runtime_checkable
class Renewer(Protocol):
    """A trainer whose stage learned in the rehearsal, and can be told afterwards what all events say."""

    def renew(self, stage: Any, material: Material) -> Stage: ...


TRAINERS: Mapping[str, type[Trainer]] = {
    "popular": PopularTrainer,
    "recent": RecentTrainer,
    "co-visit": CoVisitTrainer,
    "two-tower": TowerTrainer,
    "tree": TreeTrainer,
    "last-click": LastClickTrainer,
    "popular-in-window": PopularWindowTrainer,
    "seen": SeenTrainer,
    "available": AvailableTrainer,
    "two-tower-scorer": TowerScorerTrainer,
    "feature-ranker": FeatureRankerTrainer,
    "diverse": DiverseTrainer,
    "explore": ExploreTrainer,
}
