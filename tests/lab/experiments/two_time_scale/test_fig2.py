"""Time to quality."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_cell import CURVE, StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, CCF, GRU, SINGLE_STAGE, SYSTEMS
from shortlist.lab.experiments.two_time_scale.fig2 import (
    CURVES,
    REACHED,
    _claims,
    reached,
    two_time_scale_fig2,
)

MEANS = {CCF: 0.1, GRU: 0.2, ANCHORED: 0.3}


@pytest.fixture
def result(made_up):
    plan = Plan({place_of(TINY): tuple(MEANS)}, (0, 1), CURVE)
    return two_time_scale_fig2(None, "quick", (0, 1), cache_file=made_up(plan, MEANS))


def test_a_level_is_reached_at_the_first_epoch_that_has_it():
    curve = [(1.0, 0.1), (2.0, 0.2), (3.0, 0.2)]
    assert reached(curve, 0.2) == 2.0
    assert reached(curve, 0.21) is None


def test_seconds_to_the_best_baseline(result):
    """GRU4Rec is the best baseline: 0.2. The anchored variant has 0.27 after its second epoch."""
    seconds = {one.method: one.values for one in result.rows if one.metric == REACHED}
    assert seconds[f"{ANCHORED} on world-tiny"] == (6.0, 6.0)
    assert seconds[f"{GRU} on world-tiny"] == (9.0, 9.0)
    assert f"{CCF} on world-tiny" not in seconds
    counts = {one.method: one.mean for one in result.rows if one.metric == "seeds that reach it"}
    assert counts[f"{CCF} on world-tiny"] == 0


def test_the_curve_of_the_first_seed_is_drawn(result):
    points = [
        one for one in result.rows if one.metric == CURVES and one.method == f"{ANCHORED} on world-tiny"
    ]
    assert [one.x for one in points] == [3.0, 6.0, 9.0]
    assert points[-1].mean == pytest.approx(0.3)


def test_the_first_stage_is_compared_with_gru4rec(result):
    """GRU4Rec has 0.1 after 3 s, the first stage after 9 s."""
    (found,) = result.claims
    assert found.estimate == pytest.approx(3.0)
    assert not found.holds


@pytest.mark.parametrize(("mean", "holds", "ratio"), [(0.3, True, 6 / 9), (0.1, False, 1.0)])
def test_two_stages_are_compared_with_one_at_the_best_of_one(mean, holds, ratio):
    """A single stage has its best, 0.27, after 9 s; two stages after 6 s, or never."""
    points = {ANCHORED: [(3.0 * at, mean * share) for at, share in enumerate((0.5, 0.9, 1.0), 1)]}
    points[SINGLE_STAGE] = [(3.0 * at, 0.27 * share) for at, share in enumerate((0.5, 0.9, 1.0), 1)]
    place = place_of(TINY)
    curves = {StateCell(place, SYSTEMS[name], 0, kind=CURVE): one for name, one in points.items()}
    (found,) = _claims(curves)
    assert (found.holds, found.estimate) == (holds, pytest.approx(ratio))
