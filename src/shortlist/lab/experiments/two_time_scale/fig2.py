"""Time to quality: the reciprocal rank on validation events after every epoch, against seconds of training.

Seconds of evaluation are left out, and the curve of a recurrence begins at the end of the first stage. All systems were
trained on one device, which other cells may have used at the same time.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, TINY, Place, name_at, place_for
from shortlist.lab.experiments.two_time_scale.cells.state_cell import CURVE, StateCell
from shortlist.lab.experiments.two_time_scale.cells.state_claims import PLAN
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    GRU,
    ONE_GRU,
    PAPER,
    POOLING,
    SINGLE_STAGE,
)
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent

SYSTEMS = (CCF, POOLING, GRU, "sasrec-50", ONE_GRU, ANCHORED)
BASELINES = (CCF, POOLING, GRU, "sasrec-50")
CURVES, REACHED = "validation mrr by seconds", "seconds to 95 % of the best baseline"
SHARE = 0.95
Curve = list[tuple[float, float]]  # seconds, best value so far


def two_time_scale_fig2(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    where: str = MOVIELENS,
) -> Result:
    """Trained systems on MovieLens-1M or in a world; `only` cells under these patterns are run."""
    began, name = start(), name_at("2ts-fig2", where)
    place = place_for(name, profile, data, where)
    systems = (CCF, GRU, ANCHORED) if place.name == TINY else (*SYSTEMS, SINGLE_STAGE, PAPER)
    cache, cells, skipped = filled(
        Plan({place: systems}, seeds, CURVE), cache_file, only, jobs, progress, data
    )
    curves = {cell: _curve(_points(cache, cell)) for cell in cells if cache.has(str(cell))}
    return result(
        name,
        profile,
        seeds,
        began,
        [*_curve_rows(curves, cache), *_reached_rows(curves)],
        list(_claims(curves)),
        settings=cache.settings,
        drawings={CURVES: "seconds of training"},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, ERRATA, cache.origins]),
    )


def _points(cache: AnswerCache, cell: StateCell) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = cache.facts[str(cell)]["points"]
    return points


def _curve(points: Sequence[dict[str, Any]]) -> Curve:
    """The best value so far: what early stopping would keep; a later stage begins where the one before ended."""
    best, curve = 0.0, []
    for point in points:
        best = max(best, point["value"])
        curve.append((point["seconds"], best))
    return curve


def _curve_rows(curves: dict[StateCell, Curve], cache: AnswerCache) -> Iterator[Row]:
    """The curve of the first seed of each system."""
    first = {(cell.place, cell.system.name): cell for cell in reversed(curves)}
    for (place, name), cell in first.items():
        for point in _points(cache, cell):
            yield row(f"{name} on {place}", CURVES, [point["value"]], x=point["seconds"])


def _reached_rows(curves: dict[StateCell, Curve]) -> Iterator[Row]:
    """Seconds of the seeds that reached the level, and how many did."""
    for (place, name), own in _by_system(curves).items():
        seconds = [reached(curves[cell], level(curves, cell)) for cell in own]
        known = [one for one in seconds if one is not None]
        if known:
            yield row(f"{name} on {place}", REACHED, known)
        yield row(f"{name} on {place}", "seeds that reach it", [float(len(known))])
        yield row(f"{name} on {place}", "best validation mrr", [curves[cell][-1][1] for cell in own])


def _claims(curves: dict[StateCell, Curve]) -> Iterator[Claim]:
    """The first stage is at most a third of the time of GRU4Rec to its metric; two stages are sooner than one."""
    for place in dict.fromkeys(cell.place for cell in curves):
        one, two = (
            f"first stage in a third of the time of {GRU}",
            f"two stages reach the best of {SINGLE_STAGE} sooner",
        )
        yield from _sooner(curves, place, CCF, GRU, CCF, 1 / 3, one, "E12")
        yield from _sooner(curves, place, ANCHORED, SINGLE_STAGE, SINGLE_STAGE, 1.0, two, "E3")


def _sooner(
    curves: dict[StateCell, Curve],
    place: Place,
    system: str,
    other: str,
    goal: str,
    most: float,
    name: str,
    source: str,
) -> Iterator[Claim]:
    """Seconds of a system to the best metric of `goal`, over those of another one, in every seed."""
    own, theirs, goals = (_of_seeds(curves, place, one) for one in (system, other, goal))
    ratios, late = [], 0
    for seed in sorted(set(own) & set(theirs) & set(goals)):
        best = goals[seed][-1][1]
        seconds, needed = reached(own[seed], best), reached(theirs[seed], best)
        late += seconds is None
        # A system that never has the metric counts with all of its seconds.
        ratios.append((seconds or own[seed][-1][0]) / (needed or theirs[seed][-1][0]))
    if ratios:
        note = f"seconds of {system} to the best metric of {goal} over those of {other}; {late} seeds never have it"
        holds, ends = not late and max(ratios) <= most, (min(ratios), max(ratios))
        yield claim(f"{name}, on {place}", f"{PLAN} {source}", holds, sum(ratios) / len(ratios), note, ends)


def _of_seeds(curves: dict[StateCell, Curve], place: Place, system: str) -> dict[int, Curve]:
    return {
        cell.seed: one for cell, one in curves.items() if (cell.place, cell.system.name) == (place, system)
    }


def level(curves: dict[StateCell, Curve], cell: StateCell) -> float:
    """95 % of the best baseline at the same place with the same seed."""
    same = [curve for one, curve in curves.items() if (one.place, one.seed) == (cell.place, cell.seed)]
    baselines = [
        curve
        for one, curve in curves.items()
        if (one.place, one.seed) == (cell.place, cell.seed) and one.system.name in BASELINES
    ]
    return SHARE * max(curve[-1][1] for curve in baselines or same)


def reached(curve: Curve, value: float) -> float | None:
    """The first second at which a curve has a value, None if never."""
    return next((seconds for seconds, best in curve if best >= value), None)


def _by_system(curves: dict[StateCell, Curve]) -> dict[tuple[object, str], list[StateCell]]:
    found: dict[tuple[object, str], list[StateCell]] = {}
    for cell in curves:
        found.setdefault((cell.place, cell.system.name), []).append(cell)
    return found
