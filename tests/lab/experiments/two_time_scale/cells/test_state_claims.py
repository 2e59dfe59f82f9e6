"""Claims from paired differences."""

import pytest

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.measured import PRIMARY
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_claims import EXCL, above, not_below, primary_of
from shortlist.lab.experiments.two_time_scale.cells.state_table import StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, CCF, GRU, ONE_GRU

MEANS = {CCF: 0.15, ONE_GRU: 0.25, ANCHORED: 0.25, GRU: 0.2501}


@pytest.fixture
def table(place, made_up):
    plan = Plan({place: tuple(MEANS)}, (0,))
    return StateTable.of(plan.cells(), AnswerCache.open(made_up(plan, MEANS)))


def test_a_clear_gain_holds_and_its_opposite_fails(place, table):
    (up,), (down,) = (
        above(table, place, ANCHORED, CCF, "new", "s"),
        above(table, place, CCF, ANCHORED, "new", "s"),
    )
    assert up.holds
    assert up.estimate == pytest.approx(0.1, abs=0.005)
    assert "clearly above" in up.note
    assert not down.holds
    assert "clearly below" in down.note


def test_no_difference_is_not_above_but_not_below(place, table):
    (strict,) = above(table, place, ANCHORED, GRU, "all", "s")
    (loose,) = not_below(table, place, ANCHORED, GRU, "all", "s")
    assert not strict.holds
    assert loose.holds
    (worse,) = not_below(table, place, CCF, ANCHORED, "all", "s")
    assert not worse.holds


def test_systems_that_were_not_run_make_no_claim(place, table):
    assert above(table, place, ANCHORED, "2-gru", "all", "s") == []
    assert above(table, place, ANCHORED, ANCHORED, "all", "s") == []


def test_movielens_is_judged_with_and_without_consumed_items(place):
    assert primary_of(place) == (PRIMARY,)
    assert primary_of(place_of(MOVIELENS)) == (PRIMARY, EXCL)
