import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.online import OnlineSettings, make_online_world, offline_descent
from shortlist.simulate.online.offline import draw_events, offline_step

SMALL = OnlineSettings(users=40, items=30, most=12)


def test_one_step_from_zero_is_half_an_item_over_the_regulariser():
    """sigmoid(0) = 1/2: phi = +- x / (2 c) for a click and for none."""
    x = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = offline_step(np.zeros((2, 2)), x, np.array([1.0, 0.0]), 1, 0.5, 2.0)
    assert found == pytest.approx(np.array([[1.0, 0.0], [0.0, -1.0]]))


def test_descent_is_that_of_one_user_at_a_time():
    """Against a plain loop over users and events, on the same events."""
    world = make_online_world(SMALL, 2)
    found = offline_descent(world, 12, [0, 5, 12], np.random.default_rng(7))
    rng = np.random.default_rng(7)
    events = [draw_events(world, rng) for _ in range(12)]
    phi = np.zeros_like(world.users)
    for step, (x, y) in enumerate(events, 1):
        for user in range(len(phi)):
            clicked = 1 / (1 + np.exp(-x[user] @ phi[user]))
            moved = phi[user] - ((clicked - y[user]) * x[user] + 0.1 * phi[user]) / (0.1 * step)
            phi[user] = moved / max(np.linalg.norm(moved) / 10, 1)
        if step == 5:
            assert found.vectors[1] == pytest.approx(phi)
    assert found.vectors[2] == pytest.approx(phi)
    assert not found.vectors[0].any()
    assert found.errors[12] == pytest.approx(((phi - world.best) ** 2).sum(1).mean())


def test_items_are_uniform_and_clicks_follow_the_user():
    world = make_online_world(OnlineSettings(users=20_000, items=10, spread=0.1), 0)
    x, y = draw_events(world, np.random.default_rng(0))
    rows = (x @ world.items.T).argmax(1)
    assert np.bincount(rows, minlength=10) / 20_000 == pytest.approx(np.full(10, 0.1), abs=0.01)
    true = 1 / (1 + np.exp(-(world.users * x).sum(1)))
    assert y.mean() == pytest.approx(true.mean(), abs=0.02)
    assert set(y) == {0.0, 1.0}


@pytest.mark.parametrize("regulariser", [0.5, 0.1])
def test_the_error_is_within_its_bound_after_every_event(regulariser):
    """Test 11 of the specification: e(T) (T + 1) <= Q for every T."""
    world = make_online_world(OnlineSettings(regulariser=regulariser, users=800), 0)
    found = offline_descent(world, 400, [400], np.random.default_rng(1))
    scaled = found.errors * np.arange(1, 402)
    assert scaled.max() <= (1 / regulariser + world.settings.radius) ** 2


def test_one_step_is_worse_than_none():
    """Reading (iii) of the specification: nobody with one event should start from the vector of this descent."""
    world = make_online_world(OnlineSettings(users=500), 0)
    errors = offline_descent(world, 5, [5], np.random.default_rng(1)).errors
    assert errors[1] > 10 * errors[0]


@pytest.mark.parametrize("keep", [[], [3, 3], [5, 2], [-1], [13]])
def test_lengths_that_are_not_in_order_or_out_of_range_are_refused(keep):
    world = make_online_world(SMALL, 0)
    with pytest.raises(ConfigError, match="increasing lengths from 0 to 12"):
        offline_descent(world, 12, keep, np.random.default_rng(0))
