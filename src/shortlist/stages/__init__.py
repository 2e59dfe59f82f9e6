"""From hundreds to ten."""

from shortlist.stages.boosted import BoostedScorer
from shortlist.stages.din_ranker import DINScorer
from shortlist.stages.diverse import Diverse
from shortlist.stages.explore import Explore
from shortlist.stages.features import Features
from shortlist.stages.filters import Available, Seen
from shortlist.stages.mlp_ranker import MLPScorer
from shortlist.stages.model import ModelScorer
from shortlist.stages.prerank import TowerScorer
from shortlist.stages.rank import FeatureRanker

__all__ = [
    "Available",
    "BoostedScorer",
    "DINScorer",
    "Diverse",
    "Explore",
    "FeatureRanker",
    "Features",
    "MLPScorer",
    "ModelScorer",
    "Seen",
    "TowerScorer",
]
