"""Scorers of tree nodes: from a history and node rows to scores."""

from shortlist.models.nodes.attention import AttentionScorer, AttentionState
from shortlist.models.nodes.config import ScorerConfig, ScorerSettings, ScorerSizes, values_of
from shortlist.models.nodes.factory import load_scorer, load_weights, make_scorer, warmup
from shortlist.models.nodes.linear import LinearScorer
from shortlist.models.nodes.mlp import MLPScorer
from shortlist.models.nodes.scorer import NodeScorer, State
from shortlist.models.nodes.unit import UnitInputs, plain_weights
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
    "ScorerSettings",
    "ScorerSizes",
    "State",
    "UnitInputs",
    "load_scorer",
    "load_weights",
    "make_scorer",
    "norm_report",
    "plain_weights",
    "project_",
    "values_of",
    "warmup",
]
