"""What the parts of a plan share: sizes, time limits and the words of a reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shortlist.pipeline import TYPES
from shortlist.pipeline.recipe import StageConfig
from shortlist.train.auto.composed import SLATE
from shortlist.train.auto.estimates import Meter
from shortlist.train.auto.log_profile import LogProfile

MORE_TIME = "raise --minutes"
LARGE = 100_000  # items of a large catalogue: limits of the pool are doubled
EASE_SHARE = 0.4  # of the budget, for one nominator without epochs
POOL_SETTINGS = {"exclude_seen": True, "score_pool": True}


@dataclass(frozen=True)
class Parts:
    """A profile, and the seconds that its plan may take."""

    profile: LogProfile
    meter: Meter
    seconds: float
    refit: bool = True

    def few(self, least: int) -> str:
        count = self.profile.rankable
        where = "" if count else ": no user has training events before and after a cut"
        return f"{count} training requests are too few (at least {least}){where}"

    def limit(self, usual: int) -> int:
        """Candidates of a nominator: fewer in a small catalogue, more in a large one."""
        return min(usual if self.profile.items <= LARGE else 2 * usual, max(self.profile.items // 3, SLATE))

    def too_slow(self, seconds: float, what: str = "its fits", limit: float | None = None) -> str:
        limit = EASE_SHARE * self.seconds if limit is None else limit
        return f"{what} would take about {seconds:,.0f} s, {limit:,.0f} s are left for it; {MORE_TIME}"


def minutes_of(seconds: float) -> float:
    """A time limit as recipes have it."""
    return max(round(seconds / 60, 2), 0.01)


def nominator(kind: str, train: Mapping[str, Any] | None = None, **settings: Any) -> StageConfig:
    """A nominator that leaves out the history, and scores the whole pool where it can."""
    known = {one.name for one in TYPES[kind].declared()}
    pool = {name: value for name, value in POOL_SETTINGS.items() if name in known}
    return StageConfig(kind, {**pool, **settings}, train or {})
