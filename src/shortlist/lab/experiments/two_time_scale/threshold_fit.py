"""From how many events on a vector of their own is better for users, by moments and by the loss of later events.

Item vectors and the recurrence are those of the single recurrence of 2ts-table3; the curves are on validation and test
events, which they were not trained on.
"""

from collections.abc import Sequence
from pathlib import Path

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, name_at, place_for
from shortlist.lab.experiments.two_time_scale.cells.state_cell import THRESHOLD
from shortlist.lab.experiments.two_time_scale.cells.systems import ONE_GRU
from shortlist.lab.experiments.two_time_scale.cells.threshold_cell import read_curve
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL
from shortlist.lab.experiments.two_time_scale.threshold_rows import LOSS, curve_claims, curve_rows
from shortlist.lab.result import Result, result, start
from shortlist.progress import Progress, silent


def two_time_scale_threshold(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    where: str = MOVIELENS,
) -> Result:
    """Threshold curves on MovieLens-1M or in a world; `only` cells under these patterns are run."""
    began, name = start(), name_at("2ts-threshold", where)
    place = place_for(name, profile, data, where)
    plan = Plan({place: (ONE_GRU,)}, seeds, THRESHOLD)
    cache, cells, skipped = filled(plan, cache_file, only, jobs, progress, data)
    known = [str(cell) for cell in cells if cache.has(str(cell))]
    curves = [read_curve(cache.tensors[one], cache.facts[one]) for one in known]
    return result(
        name,
        profile,
        seeds,
        began,
        list(curve_rows(str(place), curves)) if curves else [],
        list(curve_claims(str(place), curves)) if curves else [],
        settings=cache.settings,
        drawings={LOSS: "events before"},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, ERRATA, cache.origins]),
    )
