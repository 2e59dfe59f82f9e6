"""Two-stage bandits: nominators that see part of the features, a ranker, and the regret of both."""

from shortlist.simulate.bandit.regret import PairedDifference, Regret, paired
from shortlist.simulate.bandit.ridge import BatchRidge
from shortlist.simulate.bandit.simulate import random_pools, simulate
from shortlist.simulate.bandit.systems import BanditSettings, System
from shortlist.simulate.bandit.worlds import BanditWorld, LinearWorld, Rounds, RoundStream

__all__ = [
    "BanditSettings",
    "BanditWorld",
    "BatchRidge",
    "LinearWorld",
    "PairedDifference",
    "Regret",
    "RoundStream",
    "Rounds",
    "System",
    "paired",
    "random_pools",
    "simulate",
]
