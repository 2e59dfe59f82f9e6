"""Times of two implementations of one result, as a ratio with a claim."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from shortlist.errors import ShortlistError
from shortlist.lab.bench.timing import Job, alternating
from shortlist.lab.result import Claim, claim

SOURCE = "target of this project"
CLOSE = 1e-5  # largest difference of results, which is rounding
MAX_CALLS = 50  # calls of the faster side per round
MAX_ROUNDS = 300


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two implementations of one result; the ratio is the time of `over` over that of `under`."""

    name: str
    meaning: str
    over: tuple[str, Job]
    under: tuple[str, Job]
    differ: float  # largest difference of their results
    least: float | None = None  # claimed lower limit of the ratio
    most: float | None = None  # or claimed upper limit

    def measured(self, repeats: int, seconds: float) -> tuple[list[float], Mapping[str, list[float]]]:
        """The ratio in every round, and the seconds of both sides; refuses to compare different results.

        There are at least `repeats` rounds, as many as fit into `seconds`, since a short job is easily disturbed.
        Seconds are processor time, because other processes interrupt the longer side more often.
        """
        if not self.differ <= CLOSE:
            raise ShortlistError(
                f"bench ranker: {self.name}: {self.over[0]} and {self.under[0]} differ by {self.differ:.2g}, "
                "expected equal results; fix one of them before comparing times"
            )
        jobs = dict([self.over, self.under])
        trial = alternating(jobs, 3, clock=time.process_time)
        once = {name: max(statistics.median(seconds), 1e-6) for name, seconds in trial.items()}
        slowest = max(once.values())
        calls = {name: min(MAX_CALLS, max(1, round(slowest / seconds))) for name, seconds in once.items()}
        length = sum(calls[name] * seconds for name, seconds in once.items())
        rounds = max(repeats, min(MAX_ROUNDS, int(seconds / length)))
        times = alternating(jobs, rounds, calls, time.process_time)
        pairs = zip(times[self.over[0]], times[self.under[0]], strict=True)
        return [over / max(under, 1e-9) for over, under in pairs], times

    def claim(self, ratio: float) -> Claim:
        """The claim about a measured ratio."""
        holds = (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)
        limit = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return claim(self.name, SOURCE, holds, ratio, f"{limit}; {self.meaning}")
