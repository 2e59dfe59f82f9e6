"""Bare torch models that turn histories and items into vectors or scores; no training code."""

from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig

__all__ = ["FeatureMLP", "TwoTower", "TwoTowerConfig"]
