"""Claims about systems of the two-time-scale tables, from paired differences over users."""

from shortlist.lab.experiments.two_time_scale.cells.measured import EXCL, PRIMARY
from shortlist.lab.experiments.two_time_scale.cells.places import Place
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.result import Claim, claim

ISSUE, PLAN = "issue, two time scales", "two_time_scale 7.3"


def primary_of(place: Place) -> tuple[str, ...]:
    """The reciprocal rank among all items and, where nothing is consumed twice, the one without consumed items."""
    return (PRIMARY,) if place.repeats else (PRIMARY, EXCL)


def above(
    table: StateTable, place: Place, one: str, other: str, segment: str, source: str, column: str = PRIMARY
) -> list[Claim]:
    """One system has a higher metric than another: its interval lies above 0; nothing where one was not run."""
    return _claimed(table, place, one, other, segment, source, column, strict=True)


def not_below(
    table: StateTable, place: Place, one: str, other: str, segment: str, source: str, column: str = PRIMARY
) -> list[Claim]:
    """One system is not clearly worse than another: its interval does not lie below 0."""
    return _claimed(table, place, one, other, segment, source, column, strict=False)


def _claimed(
    table: StateTable,
    place: Place,
    one: str,
    other: str,
    segment: str,
    source: str,
    column: str,
    strict: bool,
) -> list[Claim]:
    if one == other or not table.has(place, one, other):
        return []
    found, users = table.difference(place, one, other, segment, column)
    if found.mean is None or found.low is None or found.high is None:
        return []
    sign = ">" if strict else ">="
    verdict = "clearly above" if found.above else "clearly below" if found.below else "no clear difference"
    seeds = len(table.seeds(place, (one, other)))
    note = f"paired difference in {column} over {users} users of {seeds} seeds: {verdict}"
    name = f"{one} {sign} {other}, {segment}, {column}, on {place}"
    holds = found.above if strict else not found.below
    return [claim(name, source, holds, found.mean, note, [found.low, found.high])]
