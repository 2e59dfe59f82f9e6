"""Items, users and histories as vectors and scores: bare torch, no training code."""

from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.sequence.two_tower import TowerConfig, TwoTower

__all__ = ["FeatureMLP", "TowerConfig", "TwoTower"]
