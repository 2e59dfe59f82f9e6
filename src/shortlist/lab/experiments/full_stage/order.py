"""Do two ways to split requests order the arms of a table in the same way?"""

import math
from collections import defaultdict

from scipy import stats

from shortlist.lab.experiments.full_stage.arm_table import ArmTable
from shortlist.lab.experiments.full_stage.arms import ORACLE, RANDOM
from shortlist.lab.experiments.full_stage.cells import Place
from shortlist.lab.experiments.full_stage.stage_data import CELLS, DECIDES, REQUESTS
from shortlist.lab.result import Row, row


def order_agreement(table: ArmTable) -> list[Row]:
    """Kendall's tau of the trained arms' precision in both protocols, for every world and stage, by seed."""
    rows = []
    for place in table.values:
        other = Place(place.world, CELLS, place.stage)
        if place.protocol == REQUESTS and other in table.values:
            taus = _taus(table, place, other)
            title = f"{REQUESTS} and {CELLS} on {place.world}/{place.stage}"
            rows += [row(title, "Kendall tau of the arms", taus)] if taus else []
    return rows


def _taus(table: ArmTable, one: Place, other: Place) -> list[float]:
    """One value per seed with at least three arms in both."""
    pairs = defaultdict(list)
    for arm in table.values[one].keys() & table.values[other].keys() - {RANDOM, ORACLE}:
        first, second = table.values[one][arm], table.values[other][arm]
        for seed in first.keys() & second.keys():
            pairs[seed].append((first[seed][DECIDES], second[seed][DECIDES]))
    return [tau for seed in sorted(pairs) if not math.isnan(tau := _tau(pairs[seed]))]


def _tau(values: list[tuple[float, float]]) -> float:
    """Kendall's tau of pairs; NaN for fewer than three, or where all are equal."""
    return float(stats.kendalltau(*zip(*values, strict=True)).statistic) if len(values) > 2 else math.nan
