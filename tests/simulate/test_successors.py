"""Markov structure: successors of items, and how often they follow."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.simulate import ChoiceModel, World, make_world, simulate_log
from shortlist.simulate.successors import place_shares, sample_places, sample_successors, successor_shares


@pytest.fixture(scope="module")
def world() -> World:
    world = make_world(200, 80, 4, seed=2, choice_model=ChoiceModel(follow=0.5))
    rng = np.random.default_rng(0)
    return replace(world, successors=sample_successors(world.categories, world.appeal, 3, rng))


def follow_share(world: World, n_events: int = 4000) -> float:
    """The share of events that are a successor of the event before."""
    events = simulate_log(world, n_events).events
    same = events.users[1:] == events.users[:-1]
    after = (world.successors[events.items[:-1]] == events.items[1:, None]).any(1)
    return float(after[same].mean())


def test_successors_are_distinct_other_items_of_the_same_group() -> None:
    groups = np.array([0] * 6 + [1] * 5 + [2])
    found = sample_successors(groups, np.full(12, 0.1, np.float32), 4, np.random.default_rng(1))
    assert (groups[found] == groups[:, None]).all()
    assert all(len(set(row)) == 4 and item not in row for item, row in enumerate(found[:11].tolist()))
    assert (found[11] == 11).all()  # the only item of its group


def test_a_group_smaller_than_the_list_repeats_its_items() -> None:
    found = sample_successors(np.array([0, 0, 0]), np.full(3, 0.3, np.float32), 4, np.random.default_rng(1))
    assert all(set(row) == {0, 1, 2} - {item} for item, row in enumerate(found.tolist()))


def test_places_are_sampled_in_proportion_to_one_over_place() -> None:
    shares = place_shares(3)
    np.testing.assert_allclose(shares, np.array([6, 3, 2]) / 11)
    places = sample_places(3, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(places, minlength=3) / 20_000, shares, atol=0.02)


def test_shares_of_successors_are_those_of_their_places_and_zero_after_none() -> None:
    successors = np.array([[1, 2], [2, 0], [0, 1]])
    shares = successor_shares(successors, np.array([[0, 1, 2], [0, 1, 2]]), np.array([0, -1]))
    np.testing.assert_allclose(shares, [[0, 2 / 3, 1 / 3], [0, 0, 0]])


def test_more_events_follow_the_last_item_in_a_world_with_successors(world: World) -> None:
    without = replace(world, choice_model=replace(world.choice_model, follow=0.0))
    assert follow_share(world) > 2 * follow_share(without)


def test_affinity_is_higher_for_the_successors_of_the_last_item(world: World) -> None:
    users, after = np.arange(20), np.arange(20)
    times = np.full(20, world.end)
    first = world.successors[after, 0]
    with_last, without = (world.affinity(users, first, times, one) for one in (after, None))
    assert (with_last > without).all()
    assert (with_last <= 1).all()
