"""How good the answers are: protocols, baselines, comparison."""

from shortlist.callable_room import make_callable
from shortlist.evaluate.compare import Comparison, compare
from shortlist.evaluate.evaluation import Evaluation, evaluate
from shortlist.evaluate.headline import Headline
from shortlist.evaluate.losses import Losses, StageLoss, StageLosses, StageTrace, decompose
from shortlist.evaluate.paired_tests import compare_scores
from shortlist.evaluate.pipeline_evaluation import PipelineEvaluation, evaluate_pipeline
from shortlist.evaluate.scores import Scores, SystemMetrics, score_slates
from shortlist.evaluate.segments import segments

__all__ = [
    "Comparison",
    "Evaluation",
    "Headline",
    "Losses",
    "PipelineEvaluation",
    "Scores",
    "StageLoss",
    "StageLosses",
    "StageTrace",
    "SystemMetrics",
    "compare",
    "compare_scores",
    "decompose",
    "evaluate",
    "evaluate_pipeline",
    "score_slates",
    "segments",
]

make_callable(__name__, evaluate)
