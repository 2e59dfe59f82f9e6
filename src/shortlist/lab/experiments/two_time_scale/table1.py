"""Two-time-scale users against popularity, last click, factorisation and sequence models, by activity of users.

The best variant of two time scales is the one with the best reciprocal rank on validation events.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from scipy import stats

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled, rate_claims, tuning_rows
from shortlist.lab.experiments.two_time_scale.cells.measured import COLUMNS, PRIMARY
from shortlist.lab.experiments.two_time_scale.cells.places import (
    FULL,
    MOVIELENS,
    TINY,
    Place,
    name_at,
    place_for,
)
from shortlist.lab.experiments.two_time_scale.cells.state_claims import (
    ISSUE,
    PLAN,
    above,
    not_below,
    primary_of,
)
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    CCF_FEATURES,
    CHOSEN_THRESHOLD,
    DYNAMIC,
    FEATURES,
    GRU,
    GRU_FEATURES,
    LAST_CLICK,
    LONGER,
    ONE_GRU,
    PLAIN,
    PLUS,
    POOLING,
    POPULAR,
    RECENT,
    REFITTED,
    SHRINK,
    STATIC,
)
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL, WORLDS
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent

ORACLES = (DYNAMIC, STATIC)
BASELINES = (POPULAR, RECENT, LAST_CLICK, CCF, POOLING, GRU, "sasrec-50", "sasrec-200", ONE_GRU)
TWO_SCALES = (ANCHORED, REFITTED, LONGER, CHOSEN_THRESHOLD, SHRINK, PLAIN, PLUS)
WITH_FEATURES = (
    CCF_FEATURES,
    GRU_FEATURES,
    FEATURES,
)  # item vectors of twice the width: compared among themselves
RIVALS = (CCF, ONE_GRU, GRU)
SLOW = ("sasrec-200", LONGER, PLUS)  # not run in the full world
REVERSALS = "rank correlation of sampled and full mrr over systems"


def two_time_scale_table1(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    where: str = MOVIELENS,
) -> Result:
    """All systems on MovieLens-1M or in a world of drifting tastes; `only` cells under these patterns are run."""
    began, name = start(), name_at("2ts-table1", where)
    place = place_for(name, profile, data, where)
    plan = Plan({place: systems_at(place)}, seeds)
    cache, cells, skipped = filled(plan, cache_file, only, jobs, progress, data)
    table = StateTable.of(cells, cache)
    return result(
        name,
        profile,
        seeds,
        began,
        [*table.rows(), *_sampled_rows(table), *tuning_rows(plan, cache)],
        [*(one for place in table.places for one in _claims(table, place)), *rate_claims(plan, cache)],
        settings=cache.settings,
        training=cache.training,
        differences=tuple(one for place in table.places for one in _differences(table, place)),
        x="mrr among all items",
        bounds={"intervals": table.intervals()},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, WORLDS, ERRATA, cache.origins]),
    )


def systems_at(place: Place) -> tuple[str, ...]:
    """The systems of a place: oracles in worlds, features where items have some, few in the tiny world."""
    if place.name == TINY:
        return (DYNAMIC, POPULAR, LAST_CLICK, CCF, GRU, ONE_GRU, ANCHORED, PLAIN)
    if place.world is None:  # nobody rates a film twice, and `plus` is for items that repeat
        return (*BASELINES, *(name for name in TWO_SCALES if name != PLUS), *WITH_FEATURES)
    if place.name == FULL:
        return tuple(name for name in (*ORACLES, *BASELINES, *TWO_SCALES) if name not in SLOW)
    return (*ORACLES, *BASELINES, *TWO_SCALES)


def _claims(table: StateTable, place: Place) -> Iterator[Claim]:
    """The claims of the issue and of the plan at a place."""
    best = table.best(place, TWO_SCALES)
    for column in primary_of(place):
        for segment in ("active", "new"):
            if best is not None:
                for other in RIVALS:
                    yield from above(table, place, best, other, segment, ISSUE, column)
            for other in (CCF_FEATURES, GRU_FEATURES):
                yield from above(table, place, FEATURES, other, segment, ISSUE, column)
    if best is not None:
        for column in primary_of(place):
            yield from above(table, place, best, CCF, "inactive", f"{PLAN} E2", column)
            for other in (CCF, ONE_GRU):
                for variant in (ANCHORED, PLAIN):
                    yield from not_below(table, place, variant, other, "active", f"{PLAN} E2", column)
        yield from above(table, place, best, POPULAR, "new", f"{PLAN} E2")
        yield from above(table, place, best, LAST_CLICK, "all", f"{PLAN} E2")
    if _repetitive(table, place):
        yield from above(table, place, PLUS, PLAIN, "all", f"{PLAN} E7")
    correlation = _correlation(table, place)
    if correlation is not None:
        note = "Spearman correlation; below 1 if any two systems change places"
        name = f"{REVERSALS}, on {place}"
        yield claim(name, f"{PLAN} E10", correlation < 1 - 1e-9, correlation, note)


def _repetitive(table: StateTable, place: Place) -> bool:
    """Whether the last click predicts twice as well as popularity, by reciprocal rank on test events."""
    systems = (LAST_CLICK, POPULAR)
    if not all(table.has(place, one) for one in systems):
        return False
    click, popular = (_mean(table, place, one, PRIMARY) for one in systems)
    return click >= 2 * popular


def _differences(table: StateTable, place: Place) -> Iterator[object]:
    best = table.best(place, TWO_SCALES)
    if best is not None:
        yield from table.differences(place, best, table.systems(place), primary_of(place))


def _mean(table: StateTable, place: Place, system: str, column: str) -> float:
    """The mean of a system over the events of all seeds."""
    own = table.pooled(place, system, table.seeds(place, (system,)))
    return float(own.column(column).sum() / own.counts(column).sum())


def _means(table: StateTable, place: Place, column: str) -> list[float]:
    """The mean of every system."""
    return [_mean(table, place, system, column) for system in table.systems(place)]


def _correlation(table: StateTable, place: Place) -> float | None:
    full, sampled = (_means(table, place, column) for column in (PRIMARY, COLUMNS[4]))
    return float(stats.spearmanr(full, sampled).statistic) if len(full) > 2 else None


def _sampled_rows(table: StateTable) -> Iterator[Row]:
    """Sampled against full metrics: a point for each system."""
    for place in table.places:
        full, sampled = (_means(table, place, column) for column in (PRIMARY, COLUMNS[4]))
        for system, x, value in zip(table.systems(place), full, sampled, strict=True):
            yield row(f"{system} on {place}", "sampled mrr against full mrr", [value], x=x)
