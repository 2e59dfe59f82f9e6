"""Claims about the arms, paired over the seeds of the world."""

from collections.abc import Mapping, Sequence

from shortlist.lab.experiments.full_stage.recipes.measures import LIKED
from shortlist.lab.experiments.full_stage.recipes.recipe_arms import (
    ARMS,
    EVENTS_ONLY,
    LIKES,
    LOG,
    SOFTMAX,
)
from shortlist.lab.result import Claim, Difference, claim
from shortlist.metrics.t_tests import TTest, paired_t

Facts = Mapping[str, Mapping[str, Mapping[int, Mapping[str, float]]]]  # by set-up, method and seed
PAPER, SPEC, CONTROL = "Full Stage Learning to Rank", "specification 3", "control"
SOURCES = {"ranknet": PAPER, "lambdarank": PAPER}
REFERENCES = (EVENTS_ONLY, SOFTMAX)


def method(arm: str, number: int) -> str:
    """The name of a round of an arm; the first one has that of the arm."""
    return f"{arm}, round {number + 1}" if number else arm


def compared() -> list[tuple[str, str, str]]:
    """What should be above what, and who says so."""
    from_log = [one.name for one in ARMS.values() if one.trained and one.reads == LOG]
    objectives = [one for one in from_log if one != SOFTMAX and ARMS[one].retrieval == "mf"]
    again = [one for one in ARMS.values() if one.rounds > 1]
    return [
        (LIKES, EVENTS_ONLY, CONTROL),
        *((name, EVENTS_ONLY, PAPER) for name in from_log),
        *((name, LIKES, CONTROL) for name in from_log),
        *((name, SOFTMAX, SOURCES.get(name, SPEC)) for name in objectives if not ARMS[name].all_logs),
        *((f"tree {name}", "tree none", SPEC) for name in ("softmax", "ranknet")),
        *((method(one.name, 1), one.name, SPEC) for one in again),
        *((method(one.name, 1), method(EVENTS_ONLY, 1), CONTROL) for one in again if one.reads == LOG),
    ]


def recipe_claims(facts: Facts) -> list[Claim]:
    """Claims about the methods that were measured with at least two seeds."""
    found = [_direction(facts, setup, *one) for setup in facts for one in compared()]
    return [one for one in found if one is not None]


def recipe_differences(facts: Facts) -> list[Difference]:
    """Liked items per slot of events only and of softmax minus those of every other method, in every set-up."""
    found = []
    for setup, methods in facts.items():
        for one, other in ((one, other) for one in REFERENCES for other in methods if other != one):
            test = _paired(methods, one, other)
            if test is not None:
                figures = test.difference, test.low, test.high
                found.append(Difference(setup, one, other, LIKED, *figures, users=0))
    return found


def _direction(facts: Facts, setup: str, high: str, low: str, source: str) -> Claim | None:
    """`high` is above `low`."""
    test = _paired(facts[setup], high, low)
    if test is None:
        return None
    note, interval = f"paired over seeds: p = {test.p_value:.2g}", (test.low, test.high)
    return claim(f"{high} > {low} in {LIKED}: {setup}", source, test.low > 0, test.difference, note, interval)


def _paired(methods: Mapping[str, Mapping[int, Mapping[str, float]]], one: str, other: str) -> TTest | None:
    sides = [methods.get(name, {}) for name in (one, other)]
    seeds: Sequence[int] = sorted(sides[0].keys() & sides[1].keys())
    if len(seeds) < 2:
        return None
    first, second = ([side[seed][LIKED] for seed in seeds] for side in sides)
    return paired_t(first, second)
