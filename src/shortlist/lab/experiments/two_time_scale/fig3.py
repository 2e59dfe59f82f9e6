"""The reciprocal rank by training events of users, by events since the base, and of never-seen users by event number.

The cells are those of 2ts-table1. A bin with fewer than 30 users has no interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled
from shortlist.lab.experiments.two_time_scale.cells.measured import PRIMARY, by_train_bins
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, Place
from shortlist.lab.experiments.two_time_scale.cells.state_claims import EXCL, ISSUE, PLAN, primary_of
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
from shortlist.lab.experiments.two_time_scale.table1 import places_of
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent

SYSTEMS = (POPULAR, LAST_CLICK, CCF, GRU, "sasrec-50", ONE_GRU, ANCHORED, PLAIN, PLUS)
BY_TRAIN, BY_USER, BY_STEPS, BY_EVENT = (
    "mrr by training events",
    "mrr by training events, every user alike",
    "mrr by events since the base",
    "mrr of new users by events before",
)
SHORT = {PRIMARY: "", EXCL: ", excl"}


def two_time_scale_fig3(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
) -> Result:
    """Systems of 2ts-table1 by bins of users and events; `only` cells under these patterns are run."""
    began = start()
    places = places_of(profile, data, "2ts-fig3")
    systems = {place: (POPULAR, ONE_GRU, ANCHORED) if place.name == TINY else SYSTEMS for place in places}
    cache, cells, skipped = filled(Plan(systems, seeds), cache_file, only, jobs, progress, data)
    table = StateTable.of(cells, cache)
    return result(
        "2ts-fig3",
        profile,
        seeds,
        began,
        [one for place in table.places for one in _rows(table, place)],
        [one for place in table.places for one in _claims(table, place)],
        settings=cache.settings,
        drawings={BY_TRAIN: "training events", BY_STEPS: "events since the base", BY_EVENT: "events before"},
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
                kind = "excl" if column == EXCL else "raw"
                found = [one.facts["curves"].get(f"{fact}, {kind}", []) for one in answers]
                shift = -1 if metric == BY_EVENT else 0  # event 1 has no events before it
                yield from _points(method, metric + SHORT[column], found, "mean", shift)


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
    """A never-seen user is predicted better after 1, 3 and 10 events; no fall far from the base."""
    for system in (ANCHORED, ONE_GRU):
        runs = [one.get("new users, raw", []) for one in table.fact(place, system, "curves")]
        means = {at: _mean(runs, at) for at in (1, 2, 4, 11)}
        known = [one for one in means.values() if one is not None]
        if len(known) == len(means):
            note = "mrr after 0, 1, 3 and 10 events: " + ", ".join(f"{one:.4f}" for one in known)
            gain = known[-1] - known[0]
            name = f"{system}: new users gain with their first events, on {place}"
            yield claim(name, ISSUE, bool((np.diff(known) > 0).all()), gain, note)
    runs = [one.get("steps since base, raw", []) for one in table.fact(place, ANCHORED, "curves")]
    near, far = _mean(runs, 21), _mean(runs, 201)
    if near is not None and far is not None:
        note = f"mrr {near:.4f} at 21 to 50 events since the base, {far:.4f} at 201 to 500"
        name = f"{ANCHORED}: no fall with the events since the base, on {place}"
        yield claim(name, f"{PLAN} E13", far >= 0.95 * near, far - near, note)


def _mean(runs: Sequence[Sequence[Mapping[str, Any]]], first: int) -> float | None:
    """The mean of a bin over the events of all seeds."""
    own = [one for run in runs for one in run if one["first"] == first]
    events = sum(one["events"] for one in own)
    return sum(one["mean"] * one["events"] for one in own) / events if events else None
