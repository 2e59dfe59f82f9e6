"""Run, trace, explain, save and load pipelines of stages."""

from shortlist.pipeline.about import About, TrainingHistory
from shortlist.pipeline.bundle import load_recommender, open_recommender, save_recommender
from shortlist.pipeline.explain import Explanation, explain
from shortlist.pipeline.guards import Optional, Within
from shortlist.pipeline.recipe import Recipe, assemble, parse_recipe, read_recipe, to_recipe, to_toml
from shortlist.pipeline.recommender import Recommendation, Recommender, Request
from shortlist.pipeline.registry import TYPES
from shortlist.pipeline.run import Slate, run
from shortlist.pipeline.shipped import find_recipe, shipped_recipe
from shortlist.pipeline.trace import Step, Trace

__all__ = [
    "TYPES",
    "About",
    "Explanation",
    "Optional",
    "Recipe",
    "Recommendation",
    "Recommender",
    "Request",
    "Slate",
    "Step",
    "Trace",
    "TrainingHistory",
    "Within",
    "assemble",
    "explain",
    "find_recipe",
    "load_recommender",
    "open_recommender",
    "parse_recipe",
    "read_recipe",
    "run",
    "save_recommender",
    "shipped_recipe",
    "to_recipe",
    "to_toml",
]
