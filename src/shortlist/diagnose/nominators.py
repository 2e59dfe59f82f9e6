"""What each nominator is worth: the pipeline really run again without it."""

from dataclasses import dataclass
from typing import Any

from shortlist.diagnose.follow_items import Followed
from shortlist.diagnose.knobs.rewritten import without_nominator
from shortlist.diagnose.sample import UserSample, returned
from shortlist.grammar import Stage, as_pipeline
from shortlist.metrics.estimate import Estimate


@dataclass(frozen=True)
class Worth:
    """Wanted items a nominator named, those nobody else named, and the change of recall when it names nothing.

    The only nominator of a pipeline takes everything with it: without it recall is 0.
    """

    named: int
    alone: int
    without: Estimate

    def as_dict(self) -> dict[str, Any]:
        return {"named": self.named, "alone": self.alone, "without": self.without.as_dict()}


def attribution(pipeline: Stage, one: UserSample, followed: Followed) -> dict[str, Worth]:
    """Every nominator left out in turn; `followed` is the same pipeline on the same panel."""
    whole = as_pipeline(pipeline)
    base = followed.returned(len(one))
    return {
        part.title: Worth(
            *followed.named[part.title],
            one.share(returned(without_nominator(whole, part.title), one) - base),
        )
        for part in whole.nominators
    }
