"""The reciprocal rank by training events of users, by events since the base, and of never-seen users by event number.

The cells are those of 2ts-table1. A bin with fewer than 30 users has no interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled
from shortlist.lab.experiments.two_time_scale.cells.measured import EXCL, PRIMARY, by_train_bins
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, TINY, Place, name_at, place_for
from shortlist.lab.experiments.two_time_scale.cells.state_claims import ISSUE, primary_of
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    GRU,
    LAST_CLICK,
    ONE_GRU,
    PLAIN,
    PLUS,
    POPULAR,
)
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL, WORLDS
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent

SYSTEMS = (POPULAR, LAST_CLICK, CCF, GRU, "sasrec-50", ONE_GRU, ANCHORED, PLAIN, PLUS)
BY_TRAIN, BY_USER, BY_STEPS, BY_EVENT, SAME_USERS, SURVIVAL, EXPONENT = (
    "mrr by training events",
    "mrr by training events, every user alike",
    "mrr by events since the base",
    "mrr of new users by events before",
    "mrr of the same new users by events before",
    "share of users with at least so many training events",
    "exponent of the tail of training events",
)
SHORT = {PRIMARY: "", EXCL: ", excl"}


def systems_at(place: Place) -> tuple[str, ...]:
    """The systems of a place: `plus` where items repeat."""
    return tuple(name for name in SYSTEMS if place.repeats or name != PLUS)


def two_time_scale_fig3(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    where: str = MOVIELENS,
) -> Result:
    """Systems of 2ts-table1 by bins of users and events; `only` cells under these patterns are run."""
    began, name = start(), name_at("2ts-fig3", where)
    place = place_for(name, profile, data, where)
    systems = (POPULAR, ONE_GRU, ANCHORED) if place.name == TINY else systems_at(place)
    cache, cells, skipped = filled(Plan({place: systems}, seeds), cache_file, only, jobs, progress, data)
    table = StateTable.of(cells, cache)
    return result(
        name,
        profile,
        seeds,
        began,
        [one for place in table.places for one in _rows(table, place)],
        [one for place in table.places for one in _claims(table, place)],
        settings=cache.settings,
        drawings={
            **{BY_TRAIN: "training events", BY_STEPS: "events since the base", BY_EVENT: "events before"},
            **{SAME_USERS: "events before", SURVIVAL: "training events"},
        },
        bounds={"intervals": _intervals(table)},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, WORLDS, ERRATA, cache.origins]),
    )


def _rows(table: StateTable, place: Place) -> Iterator[Row]:
    for system in table.systems(place):
        method = f"{system} on {place}"
        answers = list(table.answers[place][system].values())
        for column in primary_of(place):
            bins = [by_train_bins(one.sums, column) for one in answers]
            yield from _points(method, BY_TRAIN + SHORT[column], bins, "mean")
            yield from _points(method, BY_USER + SHORT[column], bins, "by user")
            for fact, metric in (("steps since base", BY_STEPS), ("new users", BY_EVENT)):
                found = [one.facts["curves"].get(f"{fact}, {_kind(column)}", []) for one in answers]
                shift = -1 if metric == BY_EVENT else 0  # event 1 has no events before it
                yield from _points(method, metric + SHORT[column], found, "mean", shift)
            gains = [one.facts.get("gains", {}).get(_kind(column), []) for one in answers]
            yield from _points(method, SAME_USERS + SHORT[column], gains, "mean", -1)
    for known in table.fact(place, POPULAR, "activity")[:1]:
        for least, share in known["survival"]:
            yield row(str(place), SURVIVAL, [share], x=float(least))
        for least, alpha, _ in known["exponents"]:
            yield row(str(place), EXPONENT, [alpha], x=float(least))


def _kind(column: str) -> str:
    return "excl" if column == EXCL else "raw"


def _points(
    method: str, metric: str, runs: Sequence[Sequence[Mapping[str, Any]]], value: str, shift: int = 0
) -> Iterator[Row]:
    """A row for each bin, with the seeds that have it; its place is the first number of the bin."""
    firsts = sorted({one["first"] for run in runs for one in run})
    for first in firsts:
        values = [float(one[value]) for run in runs for one in run if one["first"] == first]
        yield row(method, metric, values, x=float(first + shift))


def _intervals(table: StateTable) -> dict[str, list[dict[str, Any]]]:
    """By system: means by training events with intervals over the users of all seeds."""
    return {
        f"{system} on {place}, {column}": by_train_bins(
            table.pooled(place, system, table.seeds(place, (system,))), column
        )
        for place in table.places
        for system in table.systems(place)
        for column in primary_of(place)
    }


def _claims(table: StateTable, place: Place) -> Iterator[Claim]:
    """Never-seen users are predicted better after 10 events than before their first one: the same users, paired."""
    for system in (ANCHORED, ONE_GRU):
        for column in primary_of(place):
            runs = [one[_kind(column)] for one in table.fact(place, system, "gains") if one]
            if not runs or any(run[-1]["low"] is None for run in runs):
                continue
            means, gain = _means(runs, "mean"), _means(runs, "gain")[-1]
            popular = [one[_kind(column)] for one in table.fact(place, POPULAR, "gains") if one]
            low, high = _interval(runs, gain, same_users=place.world is None)
            note = (
                f"paired gain over {sum(run[0]['users'] for run in runs)} users of {len(runs)} seeds; mrr after 0, 1, "
                f"3 and 10 events {_listed(means)}; popularity {_listed(_means(popular, 'mean'))}"
            )
            name = f"{system}: the same new users gain with 10 events, {column}, on {place}"
            yield claim(name, ISSUE, low > 0, gain, note, (low, high))


def _means(runs: Sequence[Sequence[Mapping[str, Any]]], value: str) -> list[float]:
    """Means over seeds by event number, every user alike."""
    if not runs:
        return []
    values, users = [[one[value] for one in run] for run in runs], [run[0]["users"] for run in runs]
    return [float(one) for one in np.average(values, axis=0, weights=users)]


def _interval(
    runs: Sequence[Sequence[Mapping[str, Any]]], gain: float, same_users: bool
) -> tuple[float, float]:
    """The interval of the mean gain from those of the seeds: of the same users, or of independent ones."""
    users = np.array([run[0]["users"] for run in runs], np.float64)
    half = users * np.array([(run[-1]["high"] - run[-1]["low"]) / 2 for run in runs])
    width = float(half.sum() if same_users else np.sqrt(np.square(half).sum())) / float(users.sum())
    return gain - width, gain + width


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{one:.4f}" for one in values) or "not run"
