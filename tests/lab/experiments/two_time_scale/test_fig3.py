"""Metrics by bins of users and events."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells.fill import Plan
from shortlist.lab.experiments.two_time_scale.cells.places import TINY, place_of
from shortlist.lab.experiments.two_time_scale.cells.systems import ANCHORED, ONE_GRU, POPULAR
from shortlist.lab.experiments.two_time_scale.fig3 import (
    BY_EVENT,
    BY_STEPS,
    BY_TRAIN,
    EXPONENT,
    SAME_USERS,
    SURVIVAL,
    two_time_scale_fig3,
)

MEANS = {POPULAR: 0.1, ONE_GRU: 0.2, ANCHORED: 0.3}


@pytest.fixture
def result(made_up):
    plan = Plan({place_of(TINY): tuple(MEANS)}, (0, 1))
    return two_time_scale_fig3(None, "quick", (0, 1), cache_file=made_up(plan, MEANS))


def test_bins_of_training_events_have_their_means(result):
    points = [
        one for one in result.rows if (one.method, one.metric) == (f"{ANCHORED} on world-tiny", BY_TRAIN)
    ]
    assert [one.x for one in points] == [0, 1, 51]
    assert all(one.mean == pytest.approx(0.3, abs=0.02) for one in points)
    assert "2ts anchored on world-tiny, mrr, raw" in result.bounds["intervals"]


def test_new_users_are_drawn_by_the_events_before(result):
    points = [
        one for one in result.rows if (one.method, one.metric) == (f"{ANCHORED} on world-tiny", BY_EVENT)
    ]
    assert [one.x for one in points] == [0, 1, 3, 10]
    assert any(one.metric == BY_STEPS for one in result.rows)


def test_the_same_new_users_gain_with_events(result):
    assert [one.holds for one in result.claims] == [True, True]
    assert "0.3010, 0.3020, 0.3040, 0.3110; popularity 0.1010" in result.claims[0].note
    assert "over 80 users of 2 seeds" in result.claims[0].note
    low, high = result.claims[0].interval  # two seeds of other users: narrower than 0.005 to 0.015 by sqrt(2)
    assert (low, high) == pytest.approx((0.011 - 0.005 / 2**0.5, 0.011 + 0.005 / 2**0.5))
    points = [
        one for one in result.rows if (one.method, one.metric) == (f"{ANCHORED} on world-tiny", SAME_USERS)
    ]
    assert [one.x for one in points] == [0, 1, 3, 10]


def test_new_users_without_a_clear_gain_fail_the_claim(made_up):
    plan = Plan({place_of(TINY): (POPULAR, ONE_GRU, ANCHORED)}, (0,))
    path = made_up(plan, MEANS, low=-0.03)
    assert [one.holds for one in two_time_scale_fig3(None, "quick", (0,), cache_file=path).claims] == [
        False,
        False,
    ]


def test_activity_of_users_has_its_survival_and_exponents(result):
    points = [one for one in result.rows if one.method == "world-tiny"]
    assert [(one.metric, one.x, one.mean) for one in points] == [
        (SURVIVAL, 1, 1.0),
        (SURVIVAL, 20, 0.5),
        (EXPONENT, 1, 1.6),
    ]
