"""The sizes of a pipeline with the best metric within a latency budget, found by measuring."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from shortlist.data import HeldOut
from shortlist.diagnose.knobs.combined import COMBINED, combined, with_predictions
from shortlist.diagnose.knobs.sizes import FACTORS, Size, as_toml, sizes_of
from shortlist.diagnose.knobs.stage_times import TRIES, Times, stage_times
from shortlist.diagnose.knobs.trials import (
    CURRENT,
    Hits,
    Predicted,
    SizeSetting,
    Trial,
    count_slates,
    difference,
    frontier,
    trial,
)
from shortlist.diagnose.sample import SLATE, UserSample, sample_users
from shortlist.errors import ConfigError
from shortlist.evaluate.latency import WARMUP, Clock
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.estimate import MIN_USERS, Estimate
from shortlist.pipeline.recommender import resized, slate_size
from shortlist.progress import Progress, silent, tracked

METRICS = ("recall", "precision_at_1")
MIN_REQUESTS = (
    8  # requests per setting in the last round, at least, when there are too many settings for the time
)
FIRST_ROUND = 3  # the first round divides the requests of the last round by this
USUAL = 40  # typical number of settings, to size the sample of users
SLOW_TAIL, SLOW_TOTAL = (
    2.0,
    1.5,
)  # p95 over median, total over the sum of its stages: above these the machine is busy
LOSS = 0.02  # share of the best mean that a setting may lose, if not significantly worse, for being faster
SAME_SPEED = 0.1  # settings this close to the fastest count as equally fast: then fewer changes are better


@dataclass(frozen=True)
class SizeChange:
    """One size of a setting that differs from the current one."""

    stage: str
    knob: str
    before: int
    after: int


@dataclass(frozen=True)
class SettingReport:
    """One measured setting."""

    label: str
    changes: tuple[SizeChange, ...]  # none for the current setting
    pipeline: str
    toml: str
    times: Times
    recall: Estimate
    precision_at_1: Estimate
    gain: Estimate  # of the metric, against the current setting
    predicted: Predicted | None
    fits: bool
    on_frontier: bool

    @property
    def p95_ms(self) -> float:
        return self.times.p95_ms

    def metric(self, name: str) -> Estimate:
        """The metric of this name."""
        return self.recall if name == "recall" else self.precision_at_1


@dataclass(frozen=True)
class BudgetReport:
    """All settings that were measured, and which of them to use."""

    budget_ms: float
    metric: str
    k: int
    users: int
    requests: int
    status: str  # which settings fit: "all", "some" or "none"
    current: str
    best: str | None  # the best mean that fits, None when nothing does
    advised: str | None
    fastest: str
    frontier: tuple[str, ...]
    settings: tuple[SettingReport, ...]
    left_out: int  # settings there was no time for
    busy: bool  # other work on the machine slowed the requests down

    def setting(self, label: str) -> SettingReport:
        """The setting of this label."""
        return next(one for one in self.settings if one.label == label)


@dataclass(frozen=True)
class BudgetSearch:
    """The trials of a search, with their pipelines and hits."""

    budget_ms: float
    metric: str
    k: int
    users: int
    requests: int
    sizes: tuple[Size, ...]
    trials: Mapping[str, Trial]  # by label; the current setting first
    frontier: tuple[str, ...]
    best: str | None
    advised: str | None
    fastest: str
    left_out: int

    @property
    def status(self) -> str:
        """Whether all settings fit into the budget, some or none."""
        fits = [one.times.p95_ms <= self.budget_ms for one in self.trials.values()]
        return "all" if all(fits) else "some" if any(fits) else "none"

    @property
    def busy(self) -> bool:
        """Whether other work slowed the requests down: a long tail, or a total much above the sum of its stages.

        A process that waits for a processor now and then waits in few of the stages, but in most of the requests.
        """
        times = self.trials[CURRENT].times
        return times.p95_ms > SLOW_TAIL * times.median_ms or times.median_ms > SLOW_TOTAL * times.work_ms

    def report(self) -> BudgetReport:
        """The search without pipelines and hits."""
        return BudgetReport(
            self.budget_ms,
            self.metric,
            self.k,
            self.users,
            self.requests,
            self.status,
            CURRENT,
            self.best,
            self.advised,
            self.fastest,
            self.frontier,
            tuple(self._setting(label, one) for label, one in self.trials.items()),
            self.left_out,
            self.busy,
        )

    def _setting(self, label: str, one: Trial) -> SettingReport:
        before = {size.key: size.value for size in self.sizes}
        changes = one.setting.changes
        return SettingReport(
            label,
            tuple(SizeChange(*key, before[key], value) for key, value in changes.items()),
            repr(one.setting.pipeline),
            as_toml(one.setting.pipeline, changes),
            one.times,
            one.recall,
            one.precision_at_1,
            one.gain,
            one.setting.predicted,
            one.times.p95_ms <= self.budget_ms,
            label in self.frontier,
        )


def parse_budget(budget: str | float) -> float:
    """Milliseconds of "30ms", "0.03s", "30" or 30."""
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|s)?\s*", str(budget))
    value = float(found[1]) * (1e3 if found[2] == "s" else 1.0) if found else 0.0
    if not found or not 0 < value < math.inf:
        raise ConfigError(f"--budget: expected a time above 0 such as 30ms or 0.03s, got {budget!r}")
    return value


def search_budget(
    pipeline: Stage,
    held_out: HeldOut,
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
) -> BudgetSearch:
    """Change every size of a pipeline alone, combine the good ones, measure those too, and choose.

    A setting fits if the 95th percentile of single requests is within the budget. Among settings that fit and are not
    significantly worse than the best mean on the same users, and lose at most 2 % of it, the fastest is advised. The
    search ends after about `seconds`; settings there was no time for are counted.
    """
    _check(budget_ms, metric)
    pipeline = as_pipeline(pipeline)
    k = slate_size(pipeline) or SLATE
    sample = sample_users(held_out, n_items, users, seed)
    bench = _Bench(resized(pipeline, k), k, sample, metric, clock, progress).shrunk(seconds / 3)
    sizes = sizes_of(bench.pipeline, k, n_items)
    every = _singles(bench.pipeline, sizes)
    singles = every[: bench.affordable(seconds / 2)]
    first = bench.measured(singles, {}, max(requests // FIRST_ROUND, 1), seconds / 8)
    several = combined(bench.pipeline, sizes, first, budget_ms, metric)
    # All in one round again, so that all settings share the state of the machine.
    measured = bench.measured([*singles, *several], first, requests, seconds / 3)
    trials = with_predictions(measured, sizes, metric)
    best, advised = choose(trials, budget_ms, metric, bench.sample)
    return BudgetSearch(
        budget_ms,
        metric,
        k,
        bench.sample.n_users,
        len(bench.sample),
        sizes,
        trials,
        tuple(frontier(trials, metric)),
        best,
        advised,
        min(trials, key=lambda name: trials[name].times.p95_ms),
        len(every) - len(singles),
    )


def choose(
    trials: Mapping[str, Trial], budget_ms: float, metric: str, sample: UserSample
) -> tuple[str | None, str | None]:
    """The setting with the best mean that fits, and the advised one: the fastest that is not worse."""
    fitting = [one for one in trials.values() if one.times.p95_ms <= budget_ms]
    if not fitting:
        return None, None
    best = max(fitting, key=lambda one: (one.value(metric), -one.times.p95_ms))
    equals = [one for one in fitting if _as_good(one, best, metric, sample)]
    fastest = min(equals, key=lambda one: one.times.p95_ms).times
    equally_fast = [one for one in equals if _as_fast(one.times, fastest)]
    advised = min(
        equally_fast, key=lambda one: (len(one.setting.changes), -one.value(metric), one.times.p95_ms)
    )
    return best.setting.label, advised.setting.label


def _as_good(one: Trial, best: Trial, metric: str, sample: UserSample) -> bool:
    """Not significantly worse on the same users, and at most `LOSS` in the mean; without intervals, not worse."""
    behind = difference(best.hits, one.hits, sample, metric)
    if behind.low is None:
        return (behind.mean or 0.0) <= 0
    return not behind.above and (behind.mean or 0.0) <= LOSS * best.value(metric)


def _as_fast(one: Times, other: Times) -> bool:
    """Close in the 95th percentile, or in the sum of the stages' medians, which is less noisy."""
    near = 1 + SAME_SPEED
    return one.p95_ms <= other.p95_ms * near or one.work_ms <= other.work_ms * near


@dataclass(frozen=True, eq=False)
class _Bench:
    """Measures settings on the same requests and users."""

    pipeline: Pipeline
    k: int
    sample: UserSample
    metric: str
    clock: Clock
    progress: Progress

    def shrunk(self, seconds: float) -> "_Bench":
        """The same with as many users as there is time for, but enough for intervals if there are."""
        few = self._users(MIN_USERS)
        each = self._seconds(few) / few.n_users
        return replace(self, sample=self._users(max(MIN_USERS, int(seconds / max(each * USUAL, 1e-9)))))

    def affordable(self, seconds: float) -> int:
        """How many settings there is time for, the current one and four others at least."""
        single = sample_users(self.sample.held_out.take(slice(0, 1)), self.sample.n_items)
        each = min(self._seconds(single) for _ in range(1 + WARMUP))
        runs = TRIES * (WARMUP + MIN_REQUESTS) * (1 + 1 / FIRST_ROUND)
        return max(5, int(seconds / max(each * runs, 1e-9)) - COMBINED)

    def measured(
        self, settings: Sequence[SizeSetting], known: Mapping[str, Trial], requests: int, seconds: float
    ) -> dict[str, Trial]:
        """All settings with their latency, measured in turns, and their hits, unless those are `known`."""
        singles = sample_users(self.sample.held_out, self.sample.n_items, batch=1).batches
        pipelines = {one.label: one.pipeline for one in settings}
        queries = [batch.query for batch in singles]
        times = stage_times(pipelines, queries, requests, seconds, self.clock, self.progress)
        hits: dict[str, Hits] = {}
        for one in tracked(settings, "hits of settings", self.progress):
            before = known.get(one.label)
            hits[one.label] = (
                count_slates(one.pipeline, self.sample, self.k) if before is None else before.hits
            )
        return {
            one.label: trial(one, times[one.label], hits[one.label], hits[CURRENT], self.sample, self.metric)
            for one in settings
        }

    def _users(self, users: int) -> UserSample:
        return sample_users(self.sample.held_out, self.sample.n_items, users, self.sample.seed)

    def _seconds(self, sample: UserSample) -> float:
        began = self.clock()
        count_slates(self.pipeline, sample, self.k)
        return self.clock() - began


def _singles(pipeline: Pipeline, sizes: Sequence[Size]) -> list[SizeSetting]:
    """The current setting, all sizes scaled together, then one size at a time, the nearest value first."""
    settings = [SizeSetting.of(pipeline, {})]
    for factor in sorted((one for one in FACTORS if one != 1), key=lambda one: max(one, 1 / one)):
        changes = {size.key: size.scaled(factor) for size in sizes if size.scaled(factor) != size.value}
        if len(changes) > 1:
            settings.append(SizeSetting.of(pipeline, changes, f"all sizes x {factor:g}"))
    steps = [(step, size, value) for size in sizes for step, value in enumerate(size.others())]
    ordered = sorted(steps, key=lambda one: one[0])
    return [*settings, *(SizeSetting.of(pipeline, {size.key: value}) for _, size, value in ordered)]


def _check(budget_ms: float, metric: str) -> None:
    if not 0 < budget_ms < math.inf:
        raise ConfigError(f"budget: expected milliseconds above 0, got {budget_ms!r}")
    if metric not in METRICS:
        raise ConfigError(f"budget: expected one of {', '.join(METRICS)}, got {metric!r}")
