"""Stages from hundreds of candidates to ten: filters, scorers and selectors."""

from shortlist.stages.blend_ranker import BlendScorer
from shortlist.stages.boosted_ranker import BoostedScorer
from shortlist.stages.din_ranker import DINScorer
from shortlist.stages.diverse import Diverse
from shortlist.stages.explore import Explore
from shortlist.stages.feature_ranker import FeatureRanker
from shortlist.stages.filters import Available, Seen
from shortlist.stages.mlp_ranker import MLPScorer
from shortlist.stages.model_scorer import ModelScorer
from shortlist.stages.ranking_features import RankingFeatures
from shortlist.stages.two_tower_scorer import TowerScorer

__all__ = [
    "Available",
    "BlendScorer",
    "BoostedScorer",
    "DINScorer",
    "Diverse",
    "Explore",
    "FeatureRanker",
    "MLPScorer",
    "ModelScorer",
    "RankingFeatures",
    "Seen",
    "TowerScorer",
]
