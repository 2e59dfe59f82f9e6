"""The threshold curve of the table of ablations."""

import pytest

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import UNIT, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import AT_THRESHOLD, CHOSEN_THRESHOLD, ONE_GRU
from shortlist.lab.experiments.two_time_scale.thresholds import NOBODY, threshold_claims, threshold_rows


def table_of(made_up, means):
    plan = Plan({place_of(UNIT): tuple(means)}, (0, 1))
    return StateTable.of(plan.cells(), AnswerCache.open(made_up(plan, means)))


def curve(*values):
    return {f"{AT_THRESHOLD}{at}": value for at, value in zip((0, 20, 100), values, strict=True)}


def test_an_interior_optimum_holds_and_an_automatic_choice_near_it(made_up):
    table = table_of(made_up, {**curve(0.2, 0.25, 0.24), ONE_GRU: 0.21, CHOSEN_THRESHOLD: 0.249})
    interior, automatic = threshold_claims(table)
    assert interior.holds
    assert interior.estimate == 20
    assert automatic.holds
    assert automatic.estimate == pytest.approx(0.001)


def test_an_optimum_at_an_end_fails(made_up):
    (interior,) = threshold_claims(table_of(made_up, {**curve(0.26, 0.25, 0.24), ONE_GRU: 0.21}))
    assert not interior.holds


def test_the_curve_is_drawn_with_the_single_recurrence_at_its_end(made_up):
    rows = list(threshold_rows(table_of(made_up, {**curve(0.2, 0.25, 0.24), ONE_GRU: 0.21})))
    assert [one.x for one in rows] == [0, 20, 100, NOBODY]
    assert rows[-1].mean == pytest.approx(0.21)
