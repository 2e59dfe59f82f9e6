"""Online evaluation: every test event is predicted from the state before it, and then applied."""

from shortlist.evaluate.online.baselines import RecentPopularity, TrainPopularity
from shortlist.evaluate.online.differences import PairedDifference, paired_differences
from shortlist.evaluate.online.online_test import OnlineTest
from shortlist.evaluate.online.predict import Predictions, ScoresAt, predict
from shortlist.evaluate.online.ranks import OnlineRanks, ranks
from shortlist.evaluate.online.summary import OnlineSummary, SegmentMetric, summary

__all__ = [
    "OnlineRanks",
    "OnlineSummary",
    "OnlineTest",
    "PairedDifference",
    "Predictions",
    "RecentPopularity",
    "ScoresAt",
    "SegmentMetric",
    "TrainPopularity",
    "paired_differences",
    "predict",
    "ranks",
    "summary",
]
