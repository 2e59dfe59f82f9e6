"""From hundreds to ten."""

from shortlist.stages.din_ranker import DINScorer
from shortlist.stages.diverse import Diverse
from shortlist.stages.explore import Explore
from shortlist.stages.features import Features
from shortlist.stages.filters import Available, Seen
from shortlist.stages.model import ModelScorer
from shortlist.stages.prerank import TowerScorer
from shortlist.stages.rank import FeatureRanker

__all__ = [
    "Available",
    "DINScorer",
    "Diverse",
    "Explore",
    "FeatureRanker",
    "Features",
    "ModelScorer",
    "Seen",
    "TowerScorer",
]
