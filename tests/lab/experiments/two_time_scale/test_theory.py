"""The theory of two time scales, with small simulated worlds."""

import pytest

from shortlist.lab.experiments import two_time_scale_theory
from shortlist.lab.experiments.two_time_scale import theory
from shortlist.lab.experiments.two_time_scale.theory import TABLE, Draw, random_draws
from shortlist.lab.experiments.two_time_scale.theory_worlds import THRESHOLDS, WORLDS
from shortlist.lab.render import result_drawings
from tests.lab.experiments.results import check_result, points

IN_ERROR = {
    "the printed threshold minimises beta",
    "the gap is the printed sum",
    "active users have the smaller step size at the printed threshold",
}


@pytest.fixture(scope="module")
def found():
    return two_time_scale_theory(None, "quick", [0])


def test_what_the_specification_corrects_holds_and_what_is_printed_does_not(found):
    check_result(found, "2ts-theory")
    claims = {one.id: one for one in found.claims}
    assert not any(claims[name].holds for name in IN_ERROR)
    assert all(one.holds for name, one in claims.items() if name not in IN_ERROR and " alpha " not in name)
    assert claims["the printed threshold minimises beta"].estimate == 200
    assert claims["active users have the smaller step size"].estimate < 1
    assert claims["the gap is the printed sum"].note.endswith("the sum is 11.223872 and the gap 4.296424")


def test_the_bounds_hold_in_every_world(found):
    claims = {one.id: one for one in found.claims}
    for name in WORLDS:
        assert claims[f"{name}: the error is at most Q / (T + 1)"].holds
        assert claims[f"{name}: the excess risk is within its bounds"].holds
        assert claims[f"{name}: the worst-case threshold is many times too large"].holds
        assert claims[f"{name}: one offline step is worse than none"].holds


def test_every_law_of_the_table_has_its_numbers(found):
    values = {(one.method, one.metric): one.mean for one in found.rows if one.x is None}
    for law in TABLE:
        name = Draw(*law).name
        assert values[name, "beta(best)"] <= values[name, "beta(printed)"]
        assert values[name, "beta, soft start"] < values[name, "beta(best)"]
        assert values[name, "bound, a step size per T"] <= values[name, "bound, two step sizes"]
    assert values["alpha 1.2, Q 100, V 1", "best threshold of two step sizes"] == 204


def test_every_drawing_has_its_curves(found):
    drawings = result_drawings(found)
    assert len(drawings) == 5
    assert all(one.startswith("<svg") for one in drawings.values())
    for name in WORLDS:
        curve = points(found, f"one step, best on {name}", theory.EXCESS)
        soft = points(found, f"soft start, best on {name}", theory.EXCESS)
        assert len(curve) == len(THRESHOLDS)
        assert min(soft.values()) < min(curve.values()) < curve[0.0]


def test_random_draws_are_within_their_ranges():
    draws = random_draws()
    assert len(draws) == 200
    assert all(1.1 < one.alpha < 6 and 4 <= one.q / one.v <= 500 * (1 + 1e-12) for one in draws)
    assert random_draws(3) == random_draws(3)
