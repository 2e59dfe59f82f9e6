from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from shortlist.lab.experiments.two_time_scale.theory_worlds import (
    HALVES,
    WORLDS,
    play,
    play_worlds,
    world_rows,
)

THIRD = WORLDS["c 0.1, s 3, alpha 1.2"]


@cache
def small():
    return play(replace(THIRD, users=60, rounds=10), 0)


def test_the_worst_case_is_that_of_the_settings():
    one = small()
    assert one.worst_q == 400
    assert one.worst_threshold == int(np.ceil(400 / one.run.variance)) - 1
    assert [half.t for half in one.halves] == list(HALVES)


def test_step_sizes_of_the_theorem_are_never_better_than_the_best():
    """The grid of step sizes is interpolated, so up to 1 %."""
    one = small()
    for errors in (one.worst, one.measured):
        assert (one.one_step(errors) >= 0.99 * one.best_one).all()
        assert (one.two_steps(errors) >= 0.99 * one.best_two).all()
    assert (one.best_two <= one.best_one + 1e-12).all()


def test_the_excess_risk_is_within_the_bounds_of_both_errors():
    shares = small().shares_of_bound()
    assert len(shares) == 4 * 401
    assert 0 < shares.min() < shares.max() <= 1


def test_a_crossover_that_is_not_reached_has_no_number():
    names = {one.metric for one in world_rows({"w": [small()]})}
    assert "crossover" in names
    far = replace(small(), run=replace(small().run, variance=0.01))
    with_none = {one.metric for one in world_rows({"w": [small(), far]})}
    assert "crossover" not in with_none
    assert "fitted Q" in with_none


def test_every_world_is_played_with_every_seed():
    calls = []
    runs = play_worlds(20, [3, 4], lambda *call: calls.append(call))
    assert {name: len(played) for name, played in runs.items()} == dict.fromkeys(WORLDS, 2)
    assert all(one.run.settings.users == 20 for played in runs.values() for one in played)
    assert calls[-1] == ("worlds", 6, 6)


@pytest.mark.slow
def test_excess_risk_is_that_of_the_specification():
    """Section 3.3, third world at full size: an inner optimum, and little gained by two step sizes."""
    one = play(THIRD, 0)
    assert 8 <= one.fitted_one.argmin() <= 12
    assert one.fitted_one[[0, 11, 400]] == pytest.approx([0.1285, 0.0368, 0.0478], rel=0.05)
    assert one.two_steps(one.measured)[11] == pytest.approx(0.0357, rel=0.05)
    assert 1 / one.shares_of_bound().max() > 3.5
