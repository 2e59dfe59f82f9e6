"""How good the answers are, and how sure we are of it."""

from shortlist.evaluate.catalogue import ScoreBlock, evaluate_full, top_k_full
from shortlist.evaluate.exposure import coverage, gini, novelty
from shortlist.evaluate.metrics import (
    METRICS,
    Metric,
    average_precision,
    f1,
    hit_rate,
    mrr,
    ndcg,
    precision,
    recall,
)
from shortlist.evaluate.significance import Comparison, Interval, bootstrap, paired
from shortlist.evaluate.table import Scores, score_slates

__all__ = [
    "METRICS",
    "Comparison",
    "Interval",
    "Metric",
    "ScoreBlock",
    "Scores",
    "average_precision",
    "bootstrap",
    "coverage",
    "evaluate_full",
    "f1",
    "gini",
    "hit_rate",
    "mrr",
    "ndcg",
    "novelty",
    "paired",
    "precision",
    "recall",
    "score_slates",
    "top_k_full",
]
