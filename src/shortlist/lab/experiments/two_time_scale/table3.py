"""Ablations of two-time-scale users, and the threshold of activity.

All variants share the first stage, and most share the recurrence of all users.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled, rate_claims, tuning_rows
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, TINY, Place, name_at, place_for
from shortlist.lab.experiments.two_time_scale.cells.state_claims import PLAN, above, not_below, primary_of
from shortlist.lab.experiments.two_time_scale.cells.state_table import FULL_CATALOGUE, StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ABLATIONS,
    ANCHORED,
    AT_THRESHOLD,
    CCF,
    ONE_GRU,
    PAPER,
    PLAIN,
    PLUS,
    SHRINK,
    SINGLE_STAGE,
    THRESHOLDS,
    TWO_GRU,
)
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL, WORLDS
from shortlist.lab.experiments.two_time_scale.thresholds import VALIDATION, threshold_claims, threshold_rows
from shortlist.lab.result import Claim, Result, claim, result, start
from shortlist.progress import Progress, silent
from shortlist.train.two_time_scale.recurrence import MOST_POSITIVES

OFFERS, OFFERS_WITHOUT = "2ts anchored, offers", "2ts anchored, offers, no logq"
FULL_PLAIN = "2ts plain, full"


def two_time_scale_table3(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    where: str = MOVIELENS,
) -> Result:
    """All variants on MovieLens-1M or in a world; `only` cells under these patterns are run."""
    began, name = start(), name_at("2ts-table3", where)
    place = place_for(name, profile, data, where)
    plan = Plan({place: systems_at(place)}, seeds)
    cache, cells, skipped = filled(plan, cache_file, only, jobs, progress, data)
    table = StateTable.of(cells, cache)
    differences = [
        one
        for place in table.places
        for one in table.differences(place, ANCHORED, table.systems(place), primary_of(place))
        if table.has(place, ANCHORED)
    ]
    return result(
        name,
        profile,
        seeds,
        began,
        [*table.rows(FULL_CATALOGUE), *threshold_rows(table), *tuning_rows(plan, cache)],
        [
            *(one for place in table.places for one in _claims(table, place)),
            *threshold_claims(table),
            *rate_claims(plan, cache),
        ],
        settings=cache.settings,
        training=cache.training,
        differences=tuple(differences),
        drawings={VALIDATION: "threshold t*; 1000: nobody is active"},
        bounds={"intervals": table.intervals()},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, WORLDS, ERRATA, cache.origins]),
    )


def systems_at(place: Place) -> tuple[str, ...]:
    """The variants of a place, and some of them in the tiny world."""
    thresholds = tuple(f"{AT_THRESHOLD}{at}" for at in THRESHOLDS)
    if place.name == TINY:
        return (CCF, ONE_GRU, ANCHORED, TWO_GRU, SINGLE_STAGE, SHRINK, PAPER, *thresholds[:3])
    return (CCF, ONE_GRU, ANCHORED, PLAIN, PLUS, *ABLATIONS, *thresholds)


def _claims(table: StateTable, place: Place) -> Iterator[Claim]:
    """What the plan expects of the variants at a place."""
    for column in primary_of(place):
        yield from above(table, place, ANCHORED, SINGLE_STAGE, "all", f"{PLAN} E3", column)
        yield from above(table, place, ANCHORED, FULL_PLAIN, "active", f"{PLAN} E5", column)
        yield from above(table, place, ANCHORED, "2ts anchored, full", "active", f"{PLAN} E5", column)
        yield from above(table, place, ANCHORED, "2ts anchored, no transfer", "active", f"{PLAN} E5", column)
        yield from above(table, place, ANCHORED, PAPER, "active", f"{PLAN} E5", column)
        yield from not_below(table, place, SHRINK, ANCHORED, "all", f"{PLAN} E6", column)
        yield from above(table, place, ANCHORED, TWO_GRU, "active", f"{PLAN} E2", column)
        yield from above(table, place, ANCHORED, OFFERS_WITHOUT, "all", f"{PLAN} E11", column)
    yield from _close(table, place)


def _close(table: StateTable, place: Place) -> Iterator[Claim]:
    """Corrected offers give the same metric as the softmax over all items, within 3 %."""
    offered = place.budget.negatives + MOST_POSITIVES
    few = place.world is not None and place.world.items < 2 * offered  # offers are no sample of so few items
    if few or not table.has(place, ANCHORED, OFFERS):
        return
    found, users = table.difference(place, OFFERS, ANCHORED)
    seeds = table.seeds(place, (ANCHORED, OFFERS))
    own = table.pooled(place, ANCHORED, seeds)
    mean = float(own.column(FULL_CATALOGUE[0]).sum() / own.events.sum())
    if found.mean is None or found.low is None or found.high is None:
        return
    share = found.mean / mean
    name = f"corrected offers within 3 % of the full softmax, on {place}"
    note = f"relative difference in mrr over {users} users"
    ends = (found.low / mean, found.high / mean)
    yield claim(name, f"{PLAN} E11", abs(share) <= 0.03, share, note, ends)
