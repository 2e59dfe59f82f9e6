import numpy as np
import pytest

import shortlist.simulate.online.excess as module
from shortlist.errors import ConfigError
from shortlist.simulate.online import OnlineSettings, excess_surface, make_online_world
from shortlist.simulate.online.offline import draw_events

SETTINGS = OnlineSettings(users=12, items=20, width=3, rounds=8)
STEPS = np.array([0.01, 0.3, 2.0])


@pytest.fixture(scope="module")
def world():
    return make_online_world(SETTINGS, 4)


@pytest.fixture(scope="module")
def starts(world):
    far = 9 * np.random.default_rng(0).normal(size=world.users.shape)
    return np.stack([np.zeros_like(world.users), world.best, far])


def slow_surface(world, starts, steps, rng):
    """One start, step size, user and round at a time."""
    events = [draw_events(world, rng) for _ in range(SETTINGS.rounds)]
    total = np.zeros((len(starts), len(steps)))
    for s, start in enumerate(starts):
        for g, step in enumerate(steps):
            for user in range(len(start)):
                total[s, g] += excess_of(
                    world, user, start[user], step, [(x[user], y[user]) for x, y in events]
                )
    return total / len(world.users) / len(events)


def excess_of(world, user, phi, step, events):
    c, best, total = SETTINGS.regulariser, world.best[user], 0.0
    for x, y in events:
        clicked = 1 / (1 + np.exp(-world.users[user] @ x))
        total += loss(phi @ x, clicked) + c / 2 * phi @ phi - loss(best @ x, clicked) - c / 2 * best @ best
        moved = phi - step * ((1 / (1 + np.exp(-phi @ x)) - y) * x + c * phi)
        phi = moved / max(np.linalg.norm(moved) * c, 1)
    return total


def loss(score, clicked):
    return -clicked * score + np.logaddexp(0, score)


def test_excess_risk_is_that_of_one_user_at_a_time(world, starts):
    found = excess_surface(world, starts, STEPS, np.random.default_rng(5))
    assert found == pytest.approx(slow_surface(world, starts, STEPS, np.random.default_rng(5)), abs=1e-10)


def test_the_size_of_a_block_changes_nothing(world, starts, monkeypatch):
    whole = excess_surface(world, starts, STEPS, np.random.default_rng(5))
    monkeypatch.setattr(module, "NUMBERS", 30)
    assert excess_surface(world, starts, STEPS, np.random.default_rng(5)) == pytest.approx(whole, abs=1e-12)


def test_a_start_at_the_best_vector_loses_little_with_small_steps_and_more_with_large_ones(world):
    found = excess_surface(world, world.best[None], np.array([1e-9, 0.1, 1.0]), np.random.default_rng(0))[0]
    assert found[0] == pytest.approx(0, abs=1e-7)
    assert 0 < found[1] < found[2]


def test_starts_of_another_shape_or_steps_of_zero_are_refused(world, starts):
    rng = np.random.default_rng(0)
    with pytest.raises(ConfigError, match=r"expected starts \[S, 12, 3\]"):
        excess_surface(world, starts[:, :5], STEPS, rng)
    with pytest.raises(ConfigError, match="step sizes > 0"):
        excess_surface(world, starts, np.array([0.0, 0.1]), rng)
