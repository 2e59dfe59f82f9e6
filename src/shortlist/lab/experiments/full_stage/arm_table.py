"""Rows, tests and claims of a table of arms, from the cells of a cache."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.full_stage.cells import METRICS, Place, StageCell
from shortlist.lab.experiments.full_stage.stage_data import DECIDES, KS
from shortlist.lab.result import Claim, Row, claim, row
from shortlist.metrics.t_tests import ColumnTest, column_tests

SOURCE = "Full Stage Learning to Rank"
COLUMNS = tuple(f"{name}@{k}" for k in KS for name in ("hit_rate", "ndcg_hits", "recall", "precision"))
"""The eight columns of the paper's tables; its NDCG divides by the ideal order of the hits found."""
UTILITIES = ("utility", "tight utility")
LEVEL = 0.05


@dataclass(frozen=True)
class Direction:
    """`high` is expected above `low` at a place, in one column."""

    place: Place
    high: str
    low: str
    source: str = SOURCE
    column: str = DECIDES

    def __str__(self) -> str:
        column = "" if self.column == DECIDES else f" in {self.column}"
        return f"{self.high} > {self.low}{column} on {self.place}"

    @property
    def family(self) -> tuple[str, ...]:
        """The columns that are tested together."""
        return COLUMNS if self.column in COLUMNS else UTILITIES


@dataclass(frozen=True, eq=False)
class ArmTable:
    """Values of every column, by place, arm and seed."""

    values: Mapping[Place, Mapping[str, Mapping[int, Mapping[str, float]]]]
    facts: Mapping[Place, Mapping[str, Sequence[Mapping[str, Any]]]]  # of the cells, by seed

    @classmethod
    def of(cls, cells: Sequence[StageCell], cache: AnswerCache) -> "ArmTable":
        """The cells that the cache has."""
        values: dict[Place, dict[str, dict[int, Mapping[str, float]]]] = {}
        every: dict[Place, dict[str, list[Mapping[str, Any]]]] = {}
        for cell in cells:
            if cache.has(str(cell)):
                facts, arm = cache.facts[str(cell)], cell.arm.name
                values.setdefault(cell.place, {}).setdefault(arm, {})[cell.seed] = facts[METRICS]
                every.setdefault(cell.place, {}).setdefault(arm, []).append(facts)
        return cls(values, every)

    def rows(self) -> list[Row]:
        """Every column of every arm, what validation chose, and the seconds of a cell."""
        return [
            one
            for place, arms in self.values.items()
            for arm, seeds in arms.items()
            for one in self._rows(place, arm, list(seeds.values()))
        ]

    def _rows(self, place: Place, arm: str, seeds: Sequence[Mapping[str, float]]) -> list[Row]:
        title, facts = f"{arm} on {place}", self.facts[place][arm]
        means = [row(title, column, [one[column] for one in seeds]) for column in seeds[0]]
        chosen = [one["chosen"] for one in facts if "chosen" in one]
        picked = [row(title, f"chosen {name}", [one[name] for one in chosen]) for name in (chosen or [{}])[0]]
        return [*means, *picked, row(title, "seconds", [one["seconds"] for one in facts])]

    def temperature_rows(self) -> list[Row]:
        """Precision on validation by temperature, with the best learning rate and epoch of each."""
        return [
            row(f"{arm} on {place}", f"validation {DECIDES}", values, x=temperature)
            for place, arms in self.facts.items()
            for arm, facts in arms.items()
            for temperature, values in _by_temperature([one.get("validation", {}) for one in facts]).items()
        ]

    def tested(self, one: Direction) -> dict[str, ColumnTest]:
        """Both t-tests of every column on the seeds that both arms have; empty with fewer than two."""
        high, low = (self.values.get(one.place, {}).get(arm, {}) for arm in (one.high, one.low))
        seeds = sorted(high.keys() & low.keys())
        if len(seeds) < 2:
            return {}
        sides = [{name: [side[seed][name] for seed in seeds] for name in one.family} for side in (high, low)]
        return {test.column: test for test in column_tests(*sides)}

    def claims(self, directions: Sequence[Direction]) -> list[Claim]:
        """One claim for every direction with at least two seeds; it holds if the paired interval is above 0."""
        tested = {one: self.tested(one) for one in directions}
        return [_claim(one, tests) for one, tests in tested.items() if tests]

    def tests(self, directions: Sequence[Direction]) -> dict[str, Any]:
        """Differences and p-values of all columns, by direction."""
        tested = {one: self.tested(one) for one in directions}
        return {
            str(one): {name: _figures(test) for name, test in tests.items()}
            for one, tests in tested.items()
            if tests
        }


def _by_temperature(seeds: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[float, list[float]]:
    """The best of all learning rates, by temperature and seed."""
    found: dict[float, list[float]] = {}
    for rates in seeds:
        for temperature, values in rates.items():
            found.setdefault(float(temperature), []).append(max(values.values()))
    return found


def _claim(one: Direction, tests: Mapping[str, ColumnTest]) -> Claim:
    test = tests[one.column]
    significant = sum(_up(each) for each in tests.values())
    note = (
        f"{one.column}, paired over seeds: p = {test.paired.p_value:.2g}, with Holm over {len(tests)} columns "
        f"{test.paired_holm:.2g}; Welch {test.welch.p_value:.2g}, with Holm {test.welch_holm:.2g}; "
        f"{significant} of {len(tests)} columns above with Holm in the paired test"
    )
    paired = test.paired
    return claim(str(one), one.source, paired.low > 0, paired.difference, note, (paired.low, paired.high))


def _up(test: ColumnTest) -> bool:
    return test.paired.difference > 0 and test.paired_holm < LEVEL


def _figures(test: ColumnTest) -> dict[str, float | None]:
    """JSON has no NaN: None where neither sample varies."""
    figures = {
        "difference": test.paired.difference,
        "low": test.paired.low,
        "high": test.paired.high,
        "paired": test.paired.p_value,
        "paired, Holm": test.paired_holm,
        "Welch": test.welch.p_value,
        "Welch, Holm": test.welch_holm,
    }
    return {name: None if math.isnan(value) else value for name, value in figures.items()}
