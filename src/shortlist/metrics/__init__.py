"""Ranking and catalogue metrics, intervals, paired tests: pure functions, used by training and evaluation alike."""

from shortlist.metrics.coverage import coverage, gini, novelty
from shortlist.metrics.ranking import (
    METRICS,
    Metric,
    average_precision,
    f1,
    hit_rate,
    list_recall,
    mrr,
    ndcg,
    ndcg_hits,
    precision,
    recall,
)
from shortlist.metrics.significance import Interval, PairedTest, bootstrap, holm, paired

__all__ = [
    "METRICS",
    "Interval",
    "Metric",
    "PairedTest",
    "average_precision",
    "bootstrap",
    "coverage",
    "f1",
    "gini",
    "hit_rate",
    "holm",
    "list_recall",
    "mrr",
    "ndcg",
    "ndcg_hits",
    "novelty",
    "paired",
    "precision",
    "recall",
]
