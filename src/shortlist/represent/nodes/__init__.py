"""Scorers of tree nodes: a history and a node in, a number out."""

from shortlist.represent.nodes.attention import AttentionScorer, AttentionState, plain_weights
from shortlist.represent.nodes.config import ScorerConfig
from shortlist.represent.nodes.linear import LinearScorer
from shortlist.represent.nodes.make import load_scorer, make_scorer, take_weights, warm
from shortlist.represent.nodes.mlp import MLPScorer
from shortlist.represent.nodes.scorer import NodeScorer, State

__all__ = [
    "AttentionScorer",
    "AttentionState",
    "LinearScorer",
    "MLPScorer",
    "NodeScorer",
    "ScorerConfig",
    "State",
    "load_scorer",
    "make_scorer",
    "plain_weights",
    "take_weights",
    "warm",
]
