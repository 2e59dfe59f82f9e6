from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.metrics.moments import crossing
from shortlist.simulate.online import (
    OnlineSettings,
    grid_of_lengths,
    make_online_world,
    offline_descent,
    simulate_online,
)

SMALL = OnlineSettings(regulariser=0.1, spread=3.0, alpha=1.2, users=150, items=60, most=40, rounds=10)
STEPS = np.geomspace(0.01, 2.0, 7)
SPEC = {  # c, s: V, worst-case threshold, e(0), e(1), e(10), e(100), max e(T) (T + 1) / Q, fitted Q, crossover
    (0.5, 1): (0.0194, 822, 0.051, 0.937, 0.077, 0.0075, 0.117, 0.759, 40),
    (0.1, 1): (0.2636, 1517, 0.713, 23.6, 1.23, 0.101, 0.118, 10.24, 41),
    (0.1, 3): (1.009, 396, 1.18, 22.6, 1.04, 0.086, 0.113, 8.66, 11),
}
SPREAD = (0.08, 0.08, 0.2, 0.03, 0.06, 0.1, 0.03, 0.06, 0.1)  # between worlds of several seeds, as a share


@cache
def small_run():
    return simulate_online(SMALL, 0, STEPS)


@pytest.mark.parametrize("law", SPEC)
def test_offline_errors_are_those_of_the_specification(law):
    """Section 3.3, 4,000 users, without the excess risk."""
    settings = OnlineSettings(regulariser=law[0], spread=law[1])
    world = make_online_world(settings, 0)
    errors = offline_descent(world, settings.most, [400], np.random.default_rng([0, 1])).errors
    scaled = errors * np.arange(1, settings.most + 2)
    q = (1 / law[0] + settings.radius) ** 2
    found = (
        *(world.variance, crossing(q, world.variance), *errors[[0, 1, 10, 100]], scaled.max() / q),
        *(scaled[20:].mean(), int(np.flatnonzero(errors > world.variance)[-1]) + 1),
    )
    for value, expected, spread in zip(found, SPEC[law], SPREAD, strict=True):
        assert value == pytest.approx(expected, rel=spread)


def test_the_crossover_is_where_the_error_falls_below_the_variance_for_good():
    run = small_run()
    assert run.crossover is not None
    assert (run.errors[run.crossover :] <= run.variance).all()
    assert run.errors[run.crossover - 1] > run.variance
    assert replace(run, variance=0.0).crossover is None
    assert replace(run, variance=1e6).crossover == 0


def test_every_start_that_is_kept_has_its_own_excess_risk():
    """At a threshold of 0 and above all lengths only one kind of start is left."""
    run, law = small_run(), SMALL.law
    assert run.excess(SMALL.most + 1, STEPS[2]) == pytest.approx(run.common[2])
    every = [np.interp(np.log(t + 1), np.log(run.lengths + 1), run.own[:, 2]) for t in range(41)]
    assert run.excess(0, STEPS[2]) == pytest.approx(law @ every)
    half = law[:5] @ np.full(5, run.common[2]) + law[5:] @ every[5:]
    assert run.excess(5, STEPS[2]) == pytest.approx(half)


def test_two_step_sizes_are_at_least_as_good_as_one():
    run = small_run()
    for threshold in range(SMALL.most + 2):
        one, step = run.best_excess(threshold)
        two, active, inactive = run.best_excess_two(threshold)
        assert two <= one + 1e-12
        assert run.excess(threshold, step) == pytest.approx(one)
        assert run.excess_two(threshold, active, inactive) == pytest.approx(two)


def test_step_sizes_between_those_of_the_grid_are_interpolated():
    run = small_run()
    middle = float(np.sqrt(STEPS[2] * STEPS[3]))
    assert run.excess(5, middle) == pytest.approx((run.excess(5, STEPS[2]) + run.excess(5, STEPS[3])) / 2)


def test_the_soft_start_is_nearer_than_both_it_mixes():
    """Its weights are the inverse errors, so at every length its error is below both; without events it is m."""
    run = small_run()
    own = run.errors[run.lengths]
    assert run.shrunk_errors[0] == pytest.approx(run.variance)
    assert (run.shrunk_errors[1:] < np.minimum(own, run.variance)[1:]).all()
    best, step = run.best_soft_excess()
    assert run.soft_excess(step) == pytest.approx(best)
    assert run.soft_error < run.variance


def test_the_scaled_error_is_the_error_times_the_events_plus_one():
    run = small_run()
    assert run.scaled_errors[7] == pytest.approx(8 * run.errors[7])
    assert run.fitted_q == pytest.approx(run.scaled_errors[20:].mean())


def test_lengths_are_all_small_ones_and_then_spaced():
    lengths = grid_of_lengths(400)
    assert lengths[:14] == [*range(13), 13]
    assert lengths[-1] == 400
    assert lengths == sorted(set(lengths))
    assert grid_of_lengths(3) == [0, 1, 2, 3]


def test_thresholds_and_step_sizes_out_of_range_are_refused():
    run = small_run()
    with pytest.raises(ConfigError, match="threshold to 41"):
        run.excess(42, 0.1)
    with pytest.raises(ConfigError, match=r"step size from 0\.01 to 2"):
        run.excess(3, 5.0)
