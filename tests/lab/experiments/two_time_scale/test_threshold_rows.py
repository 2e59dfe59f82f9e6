from dataclasses import replace

import pytest

from shortlist.lab.experiments.two_time_scale.threshold_curve import threshold_curve
from shortlist.lab.experiments.two_time_scale.threshold_rows import LOSS, curve_claims, curve_rows
from tests.lab.experiments.two_time_scale.test_threshold_curve import softmax_log


@pytest.fixture(scope="module")
def curves():
    logs = [softmax_log(0.6, seed=seed) for seed in (0, 1)]
    return [
        threshold_curve(events, space, sizes=(10, 40), grid=(0, 1, 5, 20, 60)) for events, space, _ in logs
    ]


def claims_of(curves):
    return {one.id.removeprefix("log: "): one for one in curve_claims("log", curves)}


def test_every_seed_has_a_value_and_rows_are_unique(curves):
    rows = list(curve_rows("log", curves))
    assert all(len(one.values) == 2 for one in rows)
    assert len({(one.method, one.metric, one.x) for one in rows}) == len(rows)
    loss = {one.x for one in rows if one.metric == LOSS and one.method == "own vector on log"}
    assert loss == {0.0, 1.0, 5.0, 20.0, 60.0}
    names = {one.metric for one in rows}
    assert {"split-half Q", "information Q", "split-half V, users with 41 to 100 events"} <= names
    assert not any("recurrence" in one.method for one in rows)


def test_own_vectors_of_users_who_differ_are_better_than_the_mean(curves):
    claims = claims_of(curves)
    one = claims["own vector better than mean vector from some number of events on"]
    assert one.holds
    assert one.estimate < 0
    assert one.interval[1] < 0
    assert "own vector better than recurrence from some number of events on" not in claims


def test_own_vectors_that_are_never_better_are_reported(curves):
    losses = tuple(replace(one, recurrence=one.own - 1) for one in curves[0].losses)
    claims = claims_of([replace(curves[0], losses=losses)])
    one = claims["own vector better than recurrence from some number of events on"]
    assert not one.holds
    assert one.estimate == pytest.approx(1)
    assert "from none events on" in one.note


def test_a_drifting_q_is_reported(curves):
    first, last = curves[0].halves
    drifted = replace(last, moments=replace(last.moments, q=5 * first.moments.q))
    claims = claims_of([replace(curves[0], halves=(first, drifted))])
    assert not claims["split-half Q is constant"].holds
    assert claims["split-half Q is constant"].estimate == pytest.approx(5)


def test_one_size_of_halves_makes_no_claim_about_moments(curves):
    assert "split-half Q is constant" not in claims_of([replace(curves[0], halves=curves[0].halves[:1])])
