"""What a world decides: how far apart users are, and how fast their taste drifts.

In worlds of the unit size one setting is changed at a time. The gain of the recurrence is the reciprocal rank of the
single recurrence minus that of the factorisation, for users with training events.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from shortlist.errors import ConfigError
from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled
from shortlist.lab.experiments.two_time_scale.cells.measured import PRIMARY
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, UNIT, Place, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_claims import PLAN
from shortlist.lab.experiments.two_time_scale.cells.state_table import FULL_CATALOGUE, StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    CHOSEN_THRESHOLD,
    DYNAMIC,
    ONE_GRU,
    STATIC,
)
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent

SWEEPS = {"drift": (0.0, 0.4, 0.8, 1.6), "spread": (0.3, 0.6, 1.2, 2.4)}
SYSTEMS = (DYNAMIC, STATIC, CCF, ONE_GRU, ANCHORED, CHOSEN_THRESHOLD)
GAIN, OWN = "mrr of 1-gru minus ccf, active", "mrr of 2ts anchored minus 1-gru, active"
CHOSEN = "chosen threshold"


def two_time_scale_drift(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
) -> Result:
    """Factorisation, recurrence and two time scales in worlds of different settings; needs no data."""
    began = start()
    systems = dict.fromkeys(_places(profile), (CCF, ONE_GRU) if profile == "quick" else SYSTEMS)
    cache, cells, skipped = filled(Plan(systems, seeds), cache_file, only, jobs, progress, data)
    table = StateTable.of(cells, cache)
    return result(
        "2ts-drift",
        profile,
        seeds,
        began,
        [*table.rows(FULL_CATALOGUE), *_gain_rows(table, profile)],
        list(_claims(table, profile)),
        settings=cache.settings,
        drawings={GAIN: "setting", OWN: "setting"},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, ERRATA, cache.origins]),
    )


def _places(profile: str) -> list[Place]:
    if profile not in ("quick", "full"):
        raise ConfigError(f"2ts-drift: expected the profile quick or full, got {profile!r}")
    return [place for _, _, place in _points(profile)]


def _points(profile: str) -> Iterator[tuple[str, float, Place]]:
    """The setting that is changed, its value, and the world."""
    if profile == "quick":
        yield from (("drift", value, place_of(TINY, drift=value)) for value in (0.0, 1.6))
        return
    for name, values in SWEEPS.items():
        yield from ((name, value, place_of(UNIT, **{name: value})) for value in values)


def _gain_rows(table: StateTable, profile: str) -> Iterator[Row]:
    for name, value, place in _points(profile):
        for metric, one, other in ((GAIN, ONE_GRU, CCF), (OWN, ANCHORED, ONE_GRU)):
            values = _gains(table, place, one, other)
            if values:
                yield row(f"by {name}", metric, values, x=value)
        chosen = [float(one) for one in table.fact(place, CHOSEN_THRESHOLD, "threshold")]
        if chosen:
            yield row(f"by {name}", CHOSEN, chosen, x=value)


def _gains(table: StateTable, place: Place, one: str, other: str) -> list[float]:
    """The difference of two systems on active users with every seed."""
    found = []
    for seed in table.seeds(place, (one, other)):
        first, second = (table.answers[place][name][seed].sums for name in (one, other))
        users = first.segment("active", place.budget.threshold)
        gain = (first.column(PRIMARY) - second.column(PRIMARY))[users].sum()
        found.append(float(gain / max(first.events[users].sum(), 1)))
    return found


def _claims(table: StateTable, profile: str) -> Iterator[Claim]:
    """The value of the recurrence grows with the drift; without drift the factorisation is no worse."""
    drifts = [(value, place) for name, value, place in _points(profile) if name == "drift"]
    gains = [(value, _gains(table, place, ONE_GRU, CCF)) for value, place in drifts]
    means = [(value, sum(own) / len(own)) for value, own in gains if own]
    if len(means) > 1:
        note = ", ".join(f"{mean:+.4f} at drift {value:g}" for value, mean in means)
        rise = means[-1][1] - means[0][1]
        yield claim("the gain of the recurrence grows with the drift", f"{PLAN} E9", rise > 0, rise, note)
        first = means[0][1]
        yield claim(
            "without drift the factorisation is no worse than 1-gru", f"{PLAN} E9", first <= 0, first, note
        )
    spreads = [(value, place) for name, value, place in _points(profile) if name == "spread"]
    chosen = [(value, table.fact(place, CHOSEN_THRESHOLD, "threshold")) for value, place in spreads]
    found = [(value, sum(_or_many(at) for at in own) / len(own)) for value, own in chosen if own]
    if len(found) > 1:
        note = (
            ", ".join(f"t* {mean:g} at spread {value:g}" for value, mean in found)
            + "; nobody active counts as 1000"
        )
        fall = found[-1][1] - found[0][1]
        yield claim("the chosen threshold falls with the spread of users", f"{PLAN} E9", fall < 0, fall, note)


def _or_many(threshold: float) -> float:
    return 1000.0 if threshold < 0 else float(threshold)
