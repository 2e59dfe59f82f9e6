"""The choice model of a world: probabilities, oracles, drift and responses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ConfigError, DataError
from shortlist.simulate import ChoiceModel, World, make_world
from shortlist.simulate.world import DAY


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(60, 150, 6, seed=3)


def grid(world: World, users: np.ndarray) -> np.ndarray:
    return np.arange(world.n_items)[None].repeat(len(users), axis=0)


def at(world: World, age: float, count: int) -> np.ndarray:
    return np.full(count, world.start + int(age * world.days * DAY))


def test_the_world_depends_only_on_the_seed() -> None:
    one, same, other = (
        make_world(9, 20, 4, seed=1),
        make_world(9, 20, 4, seed=1),
        make_world(9, 20, 4, seed=2),
    )
    for name in ("vectors", "appeal", "release_times", "interests", "tastes", "activity", "phases"):
        first, second, third = (vars(each)[name] for each in (one, same, other))
        assert first.tobytes() == second.tobytes(), name
        assert first.tobytes() != third.tobytes(), name


def test_affinities_are_probabilities_and_unreleased_items_have_none(world: World) -> None:
    users = np.arange(world.n_users)
    times = at(world, 0.3, len(users))
    affinity = world.affinity(users, grid(world, users), times)
    assert affinity.min() >= 0
    assert affinity.max() <= 1
    unreleased = world.release_times > times[0]
    assert unreleased.any()
    assert (affinity[:, unreleased] == 0).all()
    assert (affinity[:, ~unreleased] > 0).all()


def test_affinity_of_pairs_equals_affinity_of_the_grid(world: World) -> None:
    users, items = np.array([4, 7, 9]), np.array([[1, 2], [3, 4], [5, 6]])
    times, after = at(world, 0.6, 3), np.array([-1, 8, 100])
    whole = world.affinity(users, items, times, after)
    for column in range(2):
        np.testing.assert_allclose(world.affinity(users, items[:, column], times, after), whole[:, column])


def test_best_is_the_order_by_affinity(world: World) -> None:
    users = np.array([0, 5, 11])
    time = int(at(world, 0.5, 1)[0])
    best = world.best(users, time, 10)
    affinity = world.affinity(users, grid(world, users), np.full(3, time))
    np.testing.assert_array_equal(best, np.argsort(-affinity, axis=1, kind="stable")[:, :10])


def test_best_leaves_places_empty_rather_than_name_the_unreleased(world: World) -> None:
    best = world.best(np.array([0]), world.start, world.n_items)
    assert (best == -1).sum() == (world.release_times > world.start).sum()
    assert (world.release_times[best[best >= 0]] <= world.start).all()


def test_the_last_item_raises_the_affinity_of_its_category(world: World) -> None:
    users = np.arange(world.n_users)
    times = at(world, 0.9, len(users))
    last = int(np.argmin(world.release_times))
    like = (world.categories == world.categories[last]) & (world.release_times <= times[0])
    base = world.affinity(users, grid(world, users), times)
    moved = world.affinity(users, grid(world, users), times, np.full(len(users), last))
    assert moved[:, like].mean() > 1.5 * base[:, like].mean()


def test_interests_drift_between_arrival_and_departure_and_are_constant_without_drift(world: World) -> None:
    steady = replace(world, choice_model=ChoiceModel(drift=0, trend=0, freshness=0))
    user = np.array([0])
    ages = world.arrivals[0] + world.lifetimes[0] * np.array([0.0, 0.5, 1.0])
    none = np.array([-1])

    def shares(of: World, age: float) -> np.ndarray:
        return of.shares(user, at(of, age, 1), none)[0]

    steps = [np.abs(shares(world, age) - shares(world, ages[0])).sum() for age in ages]
    assert steps[0] == 0 < steps[1] < steps[2]
    np.testing.assert_allclose(shares(steady, ages[0]), shares(steady, ages[2]), atol=1e-6)


def test_category_shares_sum_to_one(world: World) -> None:
    users = np.arange(world.n_users)
    for after in (np.full(len(users), -1), users):
        np.testing.assert_allclose(
            world.shares(users, at(world, 0.4, len(users)), after).sum(axis=1), 1, atol=1e-5
        )


def test_new_items_have_higher_utility_than_old_ones() -> None:
    world = make_world(20, 400, 2, seed=0, choice_model=ChoiceModel(taste=0, closeness=0, trend=0))
    times = at(world, 1.0, 20)
    utility = world.utility(np.arange(20), grid(world, np.arange(20)), times, np.full(20, -1))[0]
    days = (times[0] - world.release_times) / DAY
    assert utility[days < 30].min() > utility[days > 120].max()


def test_appeal_follows_a_power_law_within_each_category(world: World) -> None:
    for category in range(6):
        appeal = np.sort(world.appeal[world.categories == category])[::-1]
        assert appeal.sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(appeal / appeal[0], np.arange(1, len(appeal) + 1) ** -0.9, rtol=1e-4)


@pytest.mark.parametrize(("n_users", "n_items"), [(1, 1), (1, 30), (30, 1), (2, 3)])
def test_a_world_can_have_any_size(n_users: int, n_items: int) -> None:
    world = make_world(n_users, n_items, 24)
    assert (world.n_users, world.n_items) == (n_users, n_items)
    assert world.best(np.array([0]), world.end, 1).item() in range(n_items)


def test_invalid_settings_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="n_users must be positive, got 0"):
        make_world(0, 5)
    with pytest.raises(ConfigError, match="n_categories must lie between 1 and 24, got 25"):
        make_world(5, 5, 25)
    with pytest.raises(ConfigError, match="seed must not be negative"):
        make_world(5, 5, 2, seed=-1)


def test_rows_outside_the_world_are_refused(world: World) -> None:
    with pytest.raises(DataError, match="expected user rows from 0 to 59, got -1"):
        world.affinity(np.array([-1]), np.array([0]), np.array([world.end]))
    with pytest.raises(DataError, match="expected item rows from 0 to 149, got 150"):
        world.affinity(np.array([0]), np.array([150]), np.array([world.end]))


def queries(world: World, count: int) -> Query:
    return Query.of([[row % world.n_items] for row in range(count)], [0] * count, [world.end] * count)


def test_a_response_depends_on_the_seeds_and_not_on_the_batch(world: World) -> None:
    query, slate = queries(world, 50), torch.from_numpy(world.best(np.zeros(50, np.int64), world.end, 8))
    whole = world.respond(query, slate)
    assert torch.equal(whole.clicks, world.respond(query, slate).clicks)
    assert torch.equal(whole.clicks[20:23], world.respond(query.take(slice(20, 23)), slate[20:23]).clicks)
    assert not torch.equal(whole.clicks, world.respond(query, slate, seed=1).clicks)


def test_the_same_item_is_clicked_more_often_near_the_top(world: World) -> None:
    best = int(world.best(np.array([0]), world.end, 1)[0, 0])
    outcomes = world.respond(queries(world, 4000), torch.full((4000, 10), best))
    clicked, examined = outcomes.clicks.double().mean(0), outcomes.examined.double().mean(0)
    assert clicked[0] > clicked[4] > clicked[9] > 0
    np.testing.assert_allclose(examined.numpy(), 0.85 ** np.arange(10), atol=0.03)
    np.testing.assert_allclose((clicked / examined).numpy(), outcomes.affinity.mean(0).numpy(), atol=0.05)


def test_only_examined_positions_with_items_are_clicked(world: World) -> None:
    outcomes = world.respond(queries(world, 300), torch.tensor([[0, -1, 2]]).repeat(300, 1))
    assert not (outcomes.clicks & ~outcomes.examined).any()
    assert not outcomes.clicks[:, 1].any()
    assert (outcomes.affinity[:, 1] == 0).all()


def test_respond_accepts_a_request_without_history(world: World) -> None:
    query = queries(world, 3)
    bare = replace(query, history=query.history[:, :0])
    assert world.respond(bare, torch.tensor([[1, 2]] * 3)).clicks.shape == (3, 2)
