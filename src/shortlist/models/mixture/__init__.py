"""Mixtures of nominators: experts, a gate, and the lists that they make."""

from shortlist.models.mixture.calibration import Calibration
from shortlist.models.mixture.experts import Experts, JoinedExperts
from shortlist.models.mixture.frozen_expert import FrozenExpert, FrozenTable
from shortlist.models.mixture.gate import Gate
from shortlist.models.mixture.lists import nominate
from shortlist.models.mixture.pool_mixture import PoolMixture, balance_loss, effective_experts
from shortlist.models.mixture.two_tower_expert import TwoTowerExperts, feature_subsets

__all__ = [
    "Calibration",
    "Experts",
    "FrozenExpert",
    "FrozenTable",
    "Gate",
    "JoinedExperts",
    "PoolMixture",
    "TwoTowerExperts",
    "balance_loss",
    "effective_experts",
    "feature_subsets",
    "nominate",
]
