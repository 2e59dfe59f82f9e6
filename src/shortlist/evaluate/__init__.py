"""How good the answers are: protocols, baselines, comparison."""

from shortlist.evaluate.compare import Contest, compare
from shortlist.evaluate.evaluation import Evaluation, evaluate, segments
from shortlist.evaluate.funnel import Funnel, StageLoss, funnel, passage
from shortlist.evaluate.losses import Losses, StageTrace, decompose
from shortlist.evaluate.scores import Scores, score_slates

__all__ = [
    "Contest",
    "Evaluation",
    "Funnel",
    "Losses",
    "Scores",
    "StageLoss",
    "StageTrace",
    "compare",
    "decompose",
    "evaluate",
    "funnel",
    "passage",
    "score_slates",
    "segments",
]
