"""Scorers of tree nodes: a history and a node in, a number out."""

from shortlist.represent.nodes.attention import AttentionScorer, AttentionState, plain_weights
from shortlist.represent.nodes.config import ScorerConfig
from shortlist.represent.nodes.linear import LinearScorer
from shortlist.represent.nodes.make import load_scorer, make_scorer, take_weights, warm
from shortlist.represent.nodes.mlp import MLPScorer
from shortlist.represent.nodes.norms import NormLimits, Norms, norm_report, project_
from shortlist.represent.nodes.scorer import NodeScorer, State

__all__ = [
    "AttentionScorer",
    "AttentionState",
    "LinearScorer",
    "MLPScorer",
    "NodeScorer",
    "NormLimits",
    "Norms",
    "ScorerConfig",
    "State",
    "load_scorer",
    "make_scorer",
    "norm_report",
    "plain_weights",
    "project_",
    "take_weights",
    "warm",
]
