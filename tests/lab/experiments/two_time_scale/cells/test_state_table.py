"""Tables of systems from their answers."""

import numpy as np
import pytest

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.measured import PRIMARY
from shortlist.lab.experiments.two_time_scale.cells.places import MOVIELENS, place_of
from shortlist.lab.experiments.two_time_scale.cells.state_table import SEGMENTS, StateTable
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, CCF, ONE_GRU, PLAIN

MEANS = {CCF: 0.15, ONE_GRU: 0.22, ANCHORED: 0.25}


@pytest.fixture
def table(place, made_up):
    plan = Plan({place: tuple(MEANS), place_of(MOVIELENS): (CCF, ANCHORED)}, (0, 1))
    return StateTable.of(plan.cells(), AnswerCache.open(made_up(plan, MEANS)))


def test_users_of_all_worlds_are_pooled_and_those_of_movielens_are_the_same(place, table):
    world = table.pooled(place, CCF, (0, 1))
    assert len(world.events) == 180
    movielens = table.pooled(place_of(MOVIELENS), CCF, (0, 1))
    assert len(movielens.events) == 90
    assert (movielens.events == 20).all()
    one, two = (table.answers[place_of(MOVIELENS)][CCF][seed].sums for seed in (0, 1))
    np.testing.assert_allclose(movielens.sums, one.sums + two.sums)


def test_rows_have_every_segment_with_a_value_per_seed(place, table):
    rows = {(one.method, one.metric): one for one in table.rows()}
    for segment in SEGMENTS:
        row = rows[f"{ANCHORED} on {place}", f"{PRIMARY}, {segment}"]
        assert len(row.values) == 2
        assert row.mean == pytest.approx(0.25, abs=0.01)
    assert rows[f"{CCF} on {place}", "seconds"].mean == 10


def test_differences_are_paired_over_users(place, table):
    """The noise that systems share is not in the interval."""
    found, users = table.difference(place, ANCHORED, ONE_GRU, "active")
    assert users == 60
    assert found.mean == pytest.approx(0.03, abs=0.003)
    assert 0.025 < found.low < found.high < 0.035
    alone = table.intervals()[f"{ANCHORED} on {place}"][f"{PRIMARY}, active"]
    assert alone[2] - alone[1] > 2 * (found.high - found.low)
    assert alone[3] == 60


def test_differences_leave_out_systems_that_were_not_run(place, table):
    found = list(table.differences(place, ANCHORED, (CCF, PLAIN, ANCHORED)))
    assert {one.other for one in found} == {CCF}
    assert len(found) == len(SEGMENTS)
    assert not table.has(place, ANCHORED, PLAIN)


def test_the_best_system_is_chosen_on_validation(place, table):
    assert table.best(place, (ONE_GRU, ANCHORED, PLAIN)) == ANCHORED
    assert table.best(place, (PLAIN,)) is None
