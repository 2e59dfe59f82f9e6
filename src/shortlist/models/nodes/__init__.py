"""Scorers of tree nodes: a history and a node in, a number out."""

from shortlist.models.nodes.attention import AttentionScorer, AttentionState, plain_weights
from shortlist.models.nodes.config import ScorerConfig
from shortlist.models.nodes.factory import load_scorer, make_scorer, take_weights, warm
from shortlist.models.nodes.linear import LinearScorer
from shortlist.models.nodes.mlp import MLPScorer
from shortlist.models.nodes.scorer import NodeScorer, State
from shortlist.models.nodes.weight_norms import NormLimits, Norms, norm_report, project_

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
