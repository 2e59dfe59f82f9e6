"""How good the answers are, and how sure we are of it."""

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

__all__ = [
    "METRICS",
    "Metric",
    "average_precision",
    "coverage",
    "f1",
    "gini",
    "hit_rate",
    "mrr",
    "ndcg",
    "novelty",
    "precision",
    "recall",
]
