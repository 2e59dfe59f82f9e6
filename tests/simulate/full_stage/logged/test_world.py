"""Worlds of a simulated service: their data sets, and the utility that users have of items."""

from types import SimpleNamespace

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.simulate.full_stage.logged import SimulationSettings, served_world
from shortlist.simulate.full_stage.logged.world import _not_again

SETTINGS = SimulationSettings(requests=10, history=12)


@pytest.fixture(scope="module")
def jester(tmp_path_factory):
    """Twenty users who rated all jokes, and one who did not."""
    folder = tmp_path_factory.mktemp("jester")
    ratings = np.random.default_rng(0).uniform(-10, 10, (21, 101)).round(2)
    ratings[:, 0], ratings[20, 5] = 100, 99
    np.savetxt(folder / "jester-data-1.csv", ratings, fmt="%.2f", delimiter=",")
    return served_world("jester", SETTINGS, folder, seed=1), (ratings[:20, 1:] + 10) / 20


def test_utility_of_a_joke_is_its_rating_and_histories_are_liked_jokes(jester):
    world, utility = jester
    assert (world.n_users, world.n_items) == (20, 100)
    assert np.allclose(world.utility(np.arange(20), np.arange(100)), utility, atol=1e-6)
    events = world.data.events
    assert events.lengths.max() <= SETTINGS.history
    assert utility[events.users, events.items].mean() > utility.mean()
    assert events.times.max() < world.start_ms


def test_data_sets_hold_out_whole_users_because_requests_are_later_than_all_events(jester):
    split = jester[0].data.split()
    held_out = np.unique(split.events.users[~split.in_train])
    assert split.settings["protocol"] == "half-history"
    assert 0 < len(held_out) < 20


def test_films_that_were_rated_before_are_not_liked_again():
    rated = np.array([[True, False], [False, False]])
    world = SimpleNamespace(
        observed=lambda users, items: rated[users[:, None], items],
        r=lambda users, items: np.full((len(users), 2), 0.7, np.float32),
    )
    found = _not_again(world)(np.arange(2), np.arange(2))
    assert np.allclose(found, [[0.0, 0.7], [0.7, 0.7]])


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("jester", None, "the world jester is built from files; add --source"),
        ("short-video", "folder", "the world short-video needs no files; leave --source out"),
        ("films", None, "expected a world of short-video, movielens, jester, got 'films'"),
    ],
)
def test_unknown_worlds_and_sources_that_do_not_fit_are_refused(name, source, message):
    with pytest.raises(ConfigError, match=message):
        served_world(name, SETTINGS, source)
