"""The setting of a pipeline that returns most within so many milliseconds, found by measuring."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from shortlist.data import HeldOut
from shortlist.diagnose.knobs.combined import COMBINED, combined, foretold
from shortlist.diagnose.knobs.sizes import SCALES, Dial, dials
from shortlist.diagnose.knobs.stage_times import TRIES, Times, stage_times
from shortlist.diagnose.knobs.trials import (
    PRESENT,
    Returned,
    Setting,
    Trial,
    apart,
    frontier,
    returned,
    trial,
)
from shortlist.diagnose.sample import SLATE, UserSample, panel
from shortlist.errors import ConfigError
from shortlist.evaluate.latency import WARM, Clock
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.estimate import FEWEST
from shortlist.pipeline.recommender import resized, slate_size
from shortlist.progress import Progress, silent, tracked

METRICS = ("recall", "precision_at_1")
COUNTS = "what 95 % of single requests stay within, the faster of two tries each, on one thread"
TURNS = 8  # of every setting in the last round, at least, when there are too many for the time
SCOUTS = 3  # the first round has so many times fewer turns than the last
USUAL = 40  # settings, about: for how many the time of a sample of users must last
LATE_BUSY, WHOLE_BUSY = 2.0, 1.5  # of 95 % over the median, of the whole over its stages: the machine is busy
LOSS = 0.02  # of the best mean: what a setting that is not clearly worse may lose for being faster
ALIKE = 0.1  # settings this near to the fastest are as fast as it: then fewer changes are better


@dataclass(frozen=True)
class BudgetAdvice:
    """All settings that were measured, and which of them to take."""

    budget_ms: float
    metric: str
    k: int
    users: int
    cases: int
    dials: tuple[Dial, ...]
    trials: Mapping[str, Trial]  # by label; the present setting first
    frontier: tuple[str, ...]
    best: str | None  # the best mean that fits, None when nothing does
    advised: str | None
    fastest: str
    left_out: int  # settings there was no time for

    @property
    def status(self) -> str:
        """Whether settings fit into the budget: none, some or all."""
        fits = [one.times.p95_ms <= self.budget_ms for one in self.trials.values()]
        return "all" if all(fits) else "some" if any(fits) else "none"

    @property
    def busy(self) -> bool:
        """Whether other work must have been in the way: late requests, or a whole that is more than its stages.

        Who waits for a processor now and then waits in few of the stages, but in most of the requests.
        """
        times = self.trials[PRESENT].times
        return times.p95_ms > LATE_BUSY * times.median_ms or times.median_ms > WHOLE_BUSY * times.work_ms

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        settings = [
            one.as_dict(self.dials)
            | {"fits": one.times.p95_ms <= self.budget_ms, "frontier": name in self.frontier}
            for name, one in self.trials.items()
        ]
        told_of = (
            "budget_ms",
            "metric",
            "k",
            "users",
            "cases",
            "best",
            "advised",
            "fastest",
            "left_out",
        )
        return {name: getattr(self, name) for name in told_of} | {
            "status": self.status,
            "counts": COUNTS,
            "present": PRESENT,
            "busy": self.busy,
            "frontier": list(self.frontier),
            "settings": settings,
        }


def parse_budget(text: str) -> float:
    """Milliseconds out of "30ms", "0.03s" or "30"."""
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|s)?\s*", text)
    value = float(found[1]) * (1e3 if found[2] == "s" else 1.0) if found else 0.0
    if not found or not 0 < value < math.inf:
        raise ConfigError(f"budget: expected a time above 0 such as 30ms or 0.03s, got {text!r}")
    return value


def advise(
    pipeline: Stage,
    cases: HeldOut,
    budget_ms: float,
    n_items: int,
    *,
    metric: str = "recall",
    users: int = 300,
    requests: int = 60,
    seconds: float = 40.0,
    seed: int = 0,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> BudgetAdvice:
    """Turn every size of a pipeline alone, put the good ones together, measure those too, and choose.

    A setting fits when 95 % of single requests stay within the budget. Of those that fit, the best mean leads; among
    settings that are not clearly worse than it on the same users, and lose at most 2 % of it, the fastest is advised.
    Work ends after about `seconds`, whatever is left out is counted.
    """
    _check(budget_ms, metric)
    pipeline = as_pipeline(pipeline)
    k = slate_size(pipeline) or SLATE
    bench = _Bench(resized(pipeline, k), k, panel(cases, n_items, users, seed), metric, clock, progress)
    bench = bench.shrunk(seconds / 3)
    known = dials(bench.pipeline, k, n_items)
    every = _singles(bench.pipeline, known)
    singles = every[: bench.affordable(seconds / 2)]
    scouted = bench.measured(singles, {}, max(requests // SCOUTS, 1), seconds / 8)
    more = combined(bench.pipeline, known, scouted, budget_ms, metric)
    # All in one round again, so that those of several changes see the same weather as the others.
    trials = foretold(bench.measured([*singles, *more], scouted, requests, seconds / 3), known, metric)
    best, advised = choose(trials, budget_ms, metric, bench.asked)
    return BudgetAdvice(
        budget_ms,
        metric,
        k,
        bench.asked.n_users,
        len(bench.asked),
        known,
        trials,
        tuple(frontier(trials, metric)),
        best,
        advised,
        min(trials, key=lambda name: trials[name].times.p95_ms),
        len(every) - len(singles),
    )


def choose(
    trials: Mapping[str, Trial], budget_ms: float, metric: str, asked: UserSample
) -> tuple[str | None, str | None]:
    """The setting with the best mean that fits, and the one to take: the fastest that is not worse."""
    fitting = [one for one in trials.values() if one.times.p95_ms <= budget_ms]
    if not fitting:
        return None, None
    best = max(fitting, key=lambda one: (one.worth(metric), -one.times.p95_ms))
    equals = [one for one in fitting if _as_good(one, best, metric, asked)]
    fastest = min(equals, key=lambda one: one.times.p95_ms).times
    alike = [one for one in equals if _as_fast(one.times, fastest)]
    advised = min(alike, key=lambda one: (len(one.setting.changes), -one.worth(metric), one.times.p95_ms))
    return best.setting.label, advised.setting.label


def _as_good(one: Trial, best: Trial, metric: str, asked: UserSample) -> bool:
    """Not clearly worse on the same users, nor by much in the mean; without intervals, not worse at all."""
    behind = apart(best.returned, one.returned, asked, metric)
    if behind.low is None:
        return (behind.mean or 0.0) <= 0
    return not behind.above and (behind.mean or 0.0) <= LOSS * best.worth(metric)


def _as_fast(one: Times, other: Times) -> bool:
    """Near in what 95 % stay within, or in the work of the stages: the first scatters, the second hardly does."""
    near = 1 + ALIKE
    return one.p95_ms <= other.p95_ms * near or one.work_ms <= other.work_ms * near


@dataclass(frozen=True, eq=False)
class _Bench:
    """Where settings are measured: the same requests and users for all."""

    pipeline: Pipeline
    k: int
    asked: UserSample
    metric: str
    clock: Clock
    progress: Progress

    def shrunk(self, seconds: float) -> "_Bench":
        """The same with as many users as there is time for, but enough for intervals where there are."""
        few = panel(self.asked.cases, self.asked.n_items, FEWEST, self.asked.seed)
        each = self._spent(few) / few.n_users
        most = max(FEWEST, int(seconds / max(each * USUAL, 1e-9)))
        return replace(self, asked=panel(self.asked.cases, self.asked.n_items, most, self.asked.seed))

    def affordable(self, seconds: float) -> int:
        """How many settings there is time for, the present one and four others at least."""
        alone = panel(self.asked.cases.take(slice(0, 1)), self.asked.n_items)
        each = min(self._spent(alone) for _ in range(1 + WARM))
        return max(5, int(seconds / max(each * TRIES * (WARM + TURNS) * (1 + 1 / SCOUTS), 1e-9)) - COMBINED)

    def measured(
        self, settings: Sequence[Setting], known: Mapping[str, Trial], requests: int, seconds: float
    ) -> dict[str, Trial]:
        """All settings with their times, in turns, and what they return, where that is not `known` yet."""
        queries = [one.query for one in panel(self.asked.cases, self.asked.n_items, batch=1).batches]
        pipelines = {one.label: one.pipeline for one in settings}
        times = stage_times(pipelines, queries, requests, seconds, self.clock, self.progress)
        found: dict[str, Returned] = {}
        for one in tracked(settings, "what settings return", self.progress):
            seen = known.get(one.label)
            found[one.label] = returned(one.pipeline, self.asked, self.k) if seen is None else seen.returned
        return {
            one.label: trial(one, times[one.label], found[one.label], found[PRESENT], self.asked, self.metric)
            for one in settings
        }

    def _spent(self, asked: UserSample) -> float:
        began = self.clock()
        returned(self.pipeline, asked, self.k)
        return self.clock() - began


def _singles(pipeline: Pipeline, known: Sequence[Dial]) -> list[Setting]:
    """The present setting, all sizes scaled together, then one size at a time, the nearest first."""
    settings = [Setting.of(pipeline, {})]
    for scale in sorted((one for one in SCALES if one != 1), key=lambda one: max(one, 1 / one)):
        changes = {dial.key: dial.scaled(scale) for dial in known if dial.scaled(scale) != dial.value}
        if len(changes) > 1:
            settings.append(Setting.of(pipeline, changes, f"all sizes x {scale:g}"))
    steps = [(step, dial, size) for dial in known for step, size in enumerate(dial.others())]
    alone = sorted(steps, key=lambda one: one[0])
    return [*settings, *(Setting.of(pipeline, {dial.key: size}) for _, dial, size in alone)]


def _check(budget_ms: float, metric: str) -> None:
    if not 0 < budget_ms < math.inf:
        raise ConfigError(f"budget: expected milliseconds above 0, got {budget_ms!r}")
    if metric not in METRICS:
        raise ConfigError(f"budget: expected one of {', '.join(METRICS)}, got {metric!r}")
