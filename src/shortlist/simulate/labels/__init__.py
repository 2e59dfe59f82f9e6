"""Rows with several labels as worlds of a recommender: features, labels, and bandits made from them."""

from shortlist.simulate.labels.disjoint import simulate_disjoint
from shortlist.simulate.labels.eurlex import Eurlex, read_eurlex
from shortlist.simulate.labels.label_bandit import LabelBandit
from shortlist.simulate.labels.power_law import PowerLawWorld
from shortlist.simulate.labels.random_nominations import chance_of_reward
from shortlist.simulate.labels.slate_quality import SlateQuality, best_quality, slate_quality
from shortlist.simulate.labels.table import LabelTable

__all__ = [
    "Eurlex",
    "LabelBandit",
    "LabelTable",
    "PowerLawWorld",
    "SlateQuality",
    "best_quality",
    "chance_of_reward",
    "read_eurlex",
    "simulate_disjoint",
    "slate_quality",
]
