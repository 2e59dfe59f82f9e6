"""The contribution of each nominator: the pipeline run again without it."""

from dataclasses import dataclass

from shortlist.diagnose.follow_items import FollowedItems
from shortlist.diagnose.knobs.rewritten import without_nominator
from shortlist.diagnose.sample import UserSample, hits_per_request
from shortlist.grammar import Stage, as_pipeline
from shortlist.metrics.estimate import Estimate


@dataclass(frozen=True)
class NominatorReport:
    """Relevant items a nominator nominated, those only it nominated, and the change of recall without it.

    Without the only nominator of a pipeline recall is 0.
    """

    nominated: int
    unique: int
    without: Estimate


def attribute(pipeline: Stage, sample: UserSample, followed: FollowedItems) -> dict[str, NominatorReport]:
    """Leave out every nominator in turn; `followed` is the same pipeline on the same sample."""
    whole = as_pipeline(pipeline)
    base = followed.hits(len(sample))
    reports = {}
    for part in whole.nominators:
        without = sample.recall(hits_per_request(without_nominator(whole, part.title), sample) - base)
        own = followed.nominators[part.title]
        reports[part.title] = NominatorReport(own.nominated, own.unique, without)
    return reports
