import numpy as np
import pytest
from scipy.optimize import minimize

from shortlist.errors import ConfigError
from shortlist.simulate.online import OnlineSettings, make_online_world
from shortlist.simulate.online.world import best_vectors, projected


def test_the_best_vectors_minimise_the_expected_loss():
    """Against a general optimiser, for a few users."""
    settings = OnlineSettings(regulariser=0.1, spread=2.0, users=5, items=40)
    world = make_online_world(settings, 3)
    for theta, best in zip(world.users, world.best, strict=True):
        clicked = 1 / (1 + np.exp(-world.items @ theta))

        def loss(phi, clicked=clicked):
            score = world.items @ phi
            return (np.logaddexp(0, score) - clicked * score).mean() + 0.05 * phi @ phi

        found = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
        assert best == pytest.approx(found.x, abs=1e-5)


@pytest.mark.parametrize("regulariser", [0.5, 0.1, 0.01])
def test_the_best_vectors_are_within_the_ball(regulariser):
    """Test 11 of the specification: |phi*| <= B_x / c for every user."""
    world = make_online_world(OnlineSettings(regulariser=regulariser, spread=3.0, users=500), 0)
    assert np.linalg.norm(world.best, axis=1).max() <= world.settings.radius
    assert world.settings.radius == pytest.approx(1 / regulariser)
    assert world.settings.gradient_bound == pytest.approx(2.0)


def test_a_world_is_drawn_from_its_seed():
    settings = OnlineSettings(users=20, items=30)
    one, same, other = (make_online_world(settings, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.users, same.users)
    assert not np.array_equal(one.users, other.users)
    assert np.linalg.norm(one.items, axis=1) == pytest.approx(np.ones(30))


def test_users_without_clicks_have_the_same_vector_as_their_mirror():
    """The loss of -theta at -phi is that of theta at phi."""
    items = np.random.default_rng(0).normal(size=(30, 4))
    users = np.random.default_rng(1).normal(size=(6, 4))
    assert best_vectors(items, -users, 0.1) == pytest.approx(-best_vectors(items, users, 0.1), abs=1e-8)


def test_the_variance_is_around_the_best_common_start():
    world = make_online_world(OnlineSettings(users=300), 0)
    assert world.variance == pytest.approx(world.best.var(axis=0).sum())
    for shift in np.eye(5):
        assert ((world.best - world.common - 0.1 * shift) ** 2).sum(1).mean() > world.variance


def test_the_law_of_events_is_a_power_law_to_the_longest():
    law = OnlineSettings(alpha=1.5, most=400).law
    assert law.sum() == pytest.approx(1)
    assert law[3] / law[0] == pytest.approx(4**-1.5)
    assert len(law) == 401


def test_projection_keeps_what_is_inside_and_shortens_the_rest():
    vectors = np.array([[0.3, 0.4], [3.0, 4.0], [0.0, 0.0]])
    assert projected(vectors, 1.0) == pytest.approx(np.array([[0.3, 0.4], [0.6, 0.8], [0.0, 0.0]]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"users": 1}, "users from 2"),
        ({"items": 0}, "items from 1"),
        ({"most": 0}, "most from 1"),
        ({"width": 1000}, "width from 1 to 100"),
        ({"regulariser": 0.0}, "regulariser > 0"),
        ({"regulariser": 1e-4}, "regulariser of 0.002"),
        ({"spread": float("nan")}, "spread > 0"),
        ({"alpha": -1.0}, "alpha > 0"),
        ({"mean": float("inf")}, "finite mean"),
        ({"users": 1_000_000, "width": 100}, "fewer users or rounds"),
        ({"rounds": 100_000}, "fewer users or rounds"),
    ],
)
def test_a_world_that_makes_no_sense_or_has_no_room_is_refused(change, words):
    with pytest.raises(ConfigError, match=words):
        OnlineSettings(**change)
