"""Claims about the arms of the closed loop, paired over the seeds of the world."""

from collections.abc import Mapping, Sequence
from typing import Any

from shortlist.lab.experiments.full_stage.closed_loop.loop_cells import (
    AFTER,
    COVERAGE_CHANGE,
    DROP,
    METRICS,
    TOTAL,
)
from shortlist.lab.experiments.full_stage.closed_loop.sizes import SETUPS
from shortlist.lab.result import Claim, Difference, claim
from shortlist.metrics.t_tests import TTest, paired_t
from shortlist.simulate.full_stage.closed_loop.measures import UTILITY, YIELD

Facts = Mapping[str, Mapping[str, Mapping[int, Mapping[str, Any]]]]  # by set-up, arm and seed
PAPER, SPEC, CONTROL = "Full Stage Learning to Rank", "specification 4.10", "control"

UTILITIES = (  # high, low, source
    ("oracle PRP", "random", CONTROL),
    ("SSM", "random", CONTROL),
    ("SSM", "frozen SSM", CONTROL),
    ("FS-RN", "SSM", PAPER),
    ("FS-LR", "SSM", PAPER),
    ("LCRON", "SSM", SPEC),
    ("slot price", "SSM", SPEC),
    ("slot price", "FS-RN", SPEC),
    ("slot price, lowest", "slot price", CONTROL),
    ("oracle slot price", "oracle PRP", SPEC),
    ("oracle PRP", "oracle (7)", SPEC),
)
REVEALED = (("FS-RN", "SSM", PAPER), ("FS-LR", "SSM", PAPER), ("slot price", "SSM", SPEC))
DROPS = (("frozen FS-RN", "frozen SSM", SPEC), ("FS-RN", "SSM", SPEC))
SSM = "SSM"  # trained on exposures only: the reference of all differences
COVERED = ("SSM", "FS-RN", "FS-LR", "slot price")


def loop_claims(facts: Facts) -> list[Claim]:
    """Claims about the arms that were run with at least two seeds."""
    several = [setup.name for setup in SETUPS if setup.channels > 1]
    columns = (UTILITY, TOTAL, AFTER)
    compared = [
        (setup.name, column, *one)
        for column in columns
        for setup in SETUPS
        for one in UTILITIES
        if column == UTILITY or one[2] != CONTROL
    ]
    compared += [(name, YIELD, *one) for name in several for one in REVEALED]
    compared += [(setup.name, DROP, *one) for setup in SETUPS for one in DROPS]
    found = [_direction(facts, *one) for one in compared]
    found += [_coverage(facts, setup.name, arm) for setup in SETUPS for arm in COVERED]
    return [one for one in found if one is not None]


def _direction(facts: Facts, setup: str, column: str, high: str, low: str, source: str) -> Claim | None:
    """`high` is above `low` in one column."""
    sides = [facts.get(setup, {}).get(arm, {}) for arm in (high, low)]
    seeds = sorted(sides[0].keys() & sides[1].keys())
    if len(seeds) < 2:
        return None
    test = _paired(sides, seeds, column)
    return _claim(f"{high} > {low} in {column}: {setup}", source, test, test.low > 0)


def loop_differences(facts: Facts) -> list[Difference]:
    """Total utility of SSM minus that of every other arm, in every set-up."""
    found = []
    for setup, arms in facts.items():
        for other in (arm for arm in arms if arm != SSM and SSM in arms):
            seeds = sorted(arms[SSM].keys() & arms[other].keys())
            if len(seeds) > 1:
                test = _paired([arms[SSM], arms[other]], seeds, TOTAL)
                figures = test.difference, test.low, test.high
                found.append(Difference(setup, SSM, other, TOTAL, *figures, users=0))
    return found


def _paired(sides: Sequence[Mapping[int, Mapping[str, Any]]], seeds: Sequence[int], column: str) -> TTest:
    one, other = ([side[seed][METRICS][column] for seed in seeds] for side in sides)
    return paired_t(one, other)


def _coverage(facts: Facts, setup: str, arm: str) -> Claim | None:
    """Coverage does not fall from the first round to the last one before the change."""
    seeds = facts.get(setup, {}).get(arm, {})
    if len(seeds) < 2:
        return None
    changes: Sequence[float] = [one[METRICS][COVERAGE_CHANGE] for one in seeds.values()]
    test = paired_t(changes, [0.0] * len(changes))
    return _claim(f"coverage of {arm} does not fall: {setup}", SPEC, test, test.high >= 0)


def _claim(name: str, source: str, test: TTest, holds: bool) -> Claim:
    note = f"paired over seeds: p = {test.p_value:.2g}"
    return claim(name, source, holds, test.difference, note, (test.low, test.high))
