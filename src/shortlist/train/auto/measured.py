"""How many held-out requests of each part are measured: all, or a random sample where the budget is too short."""

from collections.abc import Mapping

from shortlist.data.split import REQUESTS
from shortlist.train.auto.log_profile import LogProfile

SHARE = 0.1  # of the budget
LEAST, MOST = 10_000, 50_000  # requests of a part: the standard error of a recall of 0.1 is 0.003 and 0.0013


def measured_requests(profile: LogProfile, seconds: float, answer: float) -> int:
    """The most requests of a part that are measured within these seconds, with `answer` seconds for each."""
    affordable = int(SHARE * seconds / (2 * answer))
    return min(max(affordable, LEAST), MOST, max(profile.validation, profile.test))


def why_sampled(profile: LogProfile, measured: int) -> Mapping[str, str]:
    """What is said of requests that are not measured; empty where all are."""
    if measured >= max(profile.validation, profile.test):
        return {}
    counts = f"{profile.validation:,} validation and {profile.test:,} test requests"
    why = f"{measured:,} random ones of each part of {counts} are measured, in training and by `shortlist evaluate`"
    return {REQUESTS: f"{why}; raise --minutes to measure more, {MOST:,} at most"}
