"""How far states move with every event: step norms, relative ones, and the change of the distribution over items.

The cells are those of 2ts-table3. The total variation between the softmax over all items before and after an event does
not depend on the gauge of the vectors. Controls: an update gate that begins without bias, no transfer of weights, and
active users who are followed by the recurrence of new ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan, filled
from shortlist.lab.experiments.two_time_scale.cells.paths import AT
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, TINY, Place, name_at, place_for
from shortlist.lab.experiments.two_time_scale.cells.state_claims import PLAN
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, ONE_GRU, PAPER, PLAIN, TWO_GRU
from shortlist.lab.experiments.two_time_scale.notes import ERRATA, PROTOCOL
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent

SYSTEMS = (
    *(ANCHORED, PLAIN, ONE_GRU, TWO_GRU, PAPER),
    *("2ts plain, full", "2ts plain, no transfer", "2ts plain, no transfer, gate bias 0"),
)
NORM, RELATIVE, VARIATION = "norm", "relative", "total variation"
LABELS = {NORM: "step norm", RELATIVE: "relative step norm", VARIATION: VARIATION}
ACTIVE, INACTIVE, AS_NEW = "active", "inactive", "active, as new"


def two_time_scale_fig4(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    where: str = MOVIELENS,
) -> Result:
    """Variants on MovieLens-1M or in a world; `only` cells under these patterns are run."""
    began, name = start(), name_at("2ts-fig4", where)
    place = place_for(name, profile, data, where)
    systems = (ANCHORED, PLAIN) if place.name == TINY else SYSTEMS
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
        drawings={LABELS[name]: "events since the base" for name in (NORM, RELATIVE, VARIATION)},
        skipped=skipped,
        note=" ".join([*__doc__.split(), PROTOCOL, ERRATA, cache.origins]),
    )


def _rows(table: StateTable, place: Place) -> Iterator[Row]:
    for system in table.systems(place):
        paths = table.fact(place, system, "paths")
        for group in (ACTIVE, INACTIVE, AS_NEW):
            for name, label in LABELS.items():
                for number in AT:
                    values = [value for one in paths for value in _at(one.get(group), name, number)]
                    if values:
                        yield row(f"{system}, {group} on {place}", label, values, x=float(number))


def _at(path: Mapping[str, Any] | None, name: str, number: int) -> list[float]:
    """The value of a path after so many events, if it has one."""
    if path is None or number not in path["k"]:
        return []
    value = path[name][path["k"].index(number)]
    return [] if value is None else [float(value)]


def _claims(table: StateTable, place: Place) -> Iterator[Claim]:
    """States of inactive users move further, in norms and in the distribution over items."""
    for system in (ANCHORED, PLAIN, PAPER):
        paths = table.fact(place, system, "paths")
        for name, label in LABELS.items():
            ratios = [one for path in paths for one in _ratio(path, name)]
            if ratios:
                mean = sum(ratios) / len(ratios)
                title = f"{system}: inactive users move further than active ones, {label}, on {place}"
                note = "mean over events 1 to 20, inactive over active; ends are the smallest and largest over seeds"
                yield claim(title, f"{PLAN} E8", min(ratios) > 1, mean, note, (min(ratios), max(ratios)))


def _ratio(path: Mapping[str, Any], name: str) -> list[float]:
    """The mean step of inactive users over that of active ones, after the events that both have."""
    both = [
        (_at(path.get(INACTIVE), name, number), _at(path.get(ACTIVE), name, number))
        for number in AT
        if number <= 20
    ]
    pairs = [(one[0], other[0]) for one, other in both if one and other]
    below = sum(other for _, other in pairs)
    return [sum(one for one, _ in pairs) / below] if below else []
