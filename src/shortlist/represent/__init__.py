"""Items, users and histories as vectors and scores: bare torch, no training code."""

from shortlist.represent.mlp import FeatureMLP
from shortlist.represent.towers import TowerConfig, TwoTower

__all__ = ["FeatureMLP", "TowerConfig", "TwoTower"]
