"""How good the answers are, and how sure we are of it."""

from shortlist.evaluate.accounting import Losses, StageTrace, decompose
from shortlist.evaluate.catalogue import ScoreBlock, evaluate_full, top_k_full
from shortlist.evaluate.compare import Contest, compare
from shortlist.evaluate.diagnose import Diagnosis, diagnose
from shortlist.evaluate.exposure import coverage, gini, novelty
from shortlist.evaluate.funnel import Funnel, StageLoss, funnel, passage
from shortlist.evaluate.metrics import (
    METRICS,
    Metric,
    average_precision,
    f1,
    hit_rate,
    list_recall,
    mrr,
    ndcg,
    precision,
    recall,
)
from shortlist.evaluate.ranked import rank_model
from shortlist.evaluate.run import Evaluation, evaluate, segments
from shortlist.evaluate.significance import Comparison, Interval, bootstrap, paired
from shortlist.evaluate.table import Scores, score_slates
from shortlist.evaluate.tree import TreeDiagnosis, diagnose_tree
from shortlist.evaluate.yardsticks import yardsticks

__all__ = [
    "METRICS",
    "Comparison",
    "Contest",
    "Diagnosis",
    "Evaluation",
    "Funnel",
    "Interval",
    "Losses",
    "Metric",
    "ScoreBlock",
    "Scores",
    "StageLoss",
    "StageTrace",
    "TreeDiagnosis",
    "average_precision",
    "bootstrap",
    "compare",
    "coverage",
    "decompose",
    "diagnose",
    "diagnose_tree",
    "evaluate",
    "evaluate_full",
    "f1",
    "funnel",
    "gini",
    "hit_rate",
    "list_recall",
    "mrr",
    "ndcg",
    "novelty",
    "paired",
    "passage",
    "precision",
    "rank_model",
    "recall",
    "score_slates",
    "segments",
    "top_k_full",
    "yardsticks",
]
