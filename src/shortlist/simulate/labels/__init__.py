"""Rows with several labels as worlds of a recommender: features, labels, and bandits made from them."""

from shortlist.simulate.labels.disjoint import simulate_disjoint
from shortlist.simulate.labels.eurlex import Eurlex, read_eurlex
from shortlist.simulate.labels.label_bandit import LabelBandit
from shortlist.simulate.labels.power_law import PowerLawWorld
from shortlist.simulate.labels.slate_quality import SlateQuality, best_quality, slate_quality
from shortlist.simulate.labels.table import LabelTable

__all__ = [
    "Eurlex",
    "LabelBandit",
    "LabelTable",
    "PowerLawWorld",
    "SlateQuality",
    "best_quality",
    "read_eurlex",
    "simulate_disjoint",
    "slate_quality",
]
