"""The truth of a world: probabilities, oracles, drift and chance."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ConfigError, DataError
from shortlist.simulate import Law, World, make_world
from shortlist.simulate.world import DAY


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(60, 150, 6, seed=3)


def grid(world: World, users: np.ndarray) -> np.ndarray:
    return np.arange(world.n_items)[None].repeat(len(users), axis=0)


def at(world: World, age: float, count: int) -> np.ndarray:
    return np.full(count, world.start + int(age * world.days * DAY))


def test_the_same_seed_makes_the_same_world_and_another_seed_another() -> None:
    one, same, other = (
        make_world(9, 20, 4, seed=1),
        make_world(9, 20, 4, seed=1),
        make_world(9, 20, 4, seed=2),
    )
    for name in ("vectors", "appeal", "births", "interests", "tastes", "activity", "phases"):
        first, second, third = (vars(each)[name] for each in (one, same, other))
        assert first.tobytes() == second.tobytes(), name
        assert first.tobytes() != third.tobytes(), name


def test_affinities_are_probabilities_and_unborn_items_have_none(world: World) -> None:
    users = np.arange(world.n_users)
    times = at(world, 0.3, len(users))
    truth = world.affinity(users, grid(world, users), times)
    assert truth.min() >= 0
    assert truth.max() <= 1
    unborn = world.births > times[0]
    assert unborn.any()
    assert (truth[:, unborn] == 0).all()
    assert (truth[:, ~unborn] > 0).all()


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
    truth = world.affinity(users, grid(world, users), np.full(3, time))
    np.testing.assert_array_equal(best, np.argsort(-truth, axis=1, kind="stable")[:, :10])


def test_best_leaves_places_empty_rather_than_name_the_unborn(world: World) -> None:
    best = world.best(np.array([0]), world.start, world.n_items)
    assert (best == -1).sum() == (world.births > world.start).sum()
    assert (world.births[best[best >= 0]] <= world.start).all()


def test_what_was_just_met_draws_to_its_like(world: World) -> None:
    users = np.arange(world.n_users)
    times = at(world, 0.9, len(users))
    last = int(np.argmin(world.births))
    like = (world.categories == world.categories[last]) & (world.births <= times[0])
    calm = world.affinity(users, grid(world, users), times)
    moved = world.affinity(users, grid(world, users), times, np.full(len(users), last))
    assert moved[:, like].mean() > 1.5 * calm[:, like].mean()


def test_interests_drift_while_a_user_is_there_and_stand_still_without_drift(world: World) -> None:
    steady = replace(world, law=Law(drift=0, trend=0, freshness=0))
    user = np.array([0])
    ages = world.arrivals[0] + world.stays[0] * np.array([0.0, 0.5, 1.0])
    none = np.array([-1])

    def shares(of: World, age: float) -> np.ndarray:
        return of.shares(user, at(of, age, 1), none)[0]

    steps = [np.abs(shares(world, age) - shares(world, ages[0])).sum() for age in ages]
    assert steps[0] == 0 < steps[1] < steps[2]
    np.testing.assert_allclose(shares(steady, ages[0]), shares(steady, ages[2]), atol=1e-6)


def test_shares_of_attention_sum_to_one(world: World) -> None:
    users = np.arange(world.n_users)
    for after in (np.full(len(users), -1), users):
        np.testing.assert_allclose(
            world.shares(users, at(world, 0.4, len(users)), after).sum(axis=1), 1, atol=1e-5
        )


def test_new_items_draw_more_than_old_ones() -> None:
    world = make_world(20, 400, 2, seed=0, law=Law(taste=0, closeness=0, trend=0))
    times = at(world, 1.0, 20)
    pull = world.pull(np.arange(20), grid(world, np.arange(20)), times, np.full(20, -1))[0]
    days = (times[0] - world.births) / DAY
    assert pull[days < 30].min() > pull[days > 120].max()


def test_appeal_follows_a_power_law_within_each_category(world: World) -> None:
    for category in range(6):
        appeal = np.sort(world.appeal[world.categories == category])[::-1]
        assert appeal.sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(appeal / appeal[0], np.arange(1, len(appeal) + 1) ** -0.9, rtol=1e-4)


@pytest.mark.parametrize(("n_users", "n_items"), [(1, 1), (1, 30), (30, 1), (2, 3)])
def test_any_size_makes_a_world(n_users: int, n_items: int) -> None:
    world = make_world(n_users, n_items, 24)
    assert (world.n_users, world.n_items) == (n_users, n_items)
    assert world.best(np.array([0]), world.end, 1).item() in range(n_items)


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="n_users must be positive, got 0"):
        make_world(0, 5)
    with pytest.raises(ConfigError, match="n_categories must lie between 1 and 24, got 25"):
        make_world(5, 5, 25)
    with pytest.raises(ConfigError, match="seed must not be negative"):
        make_world(5, 5, 2, seed=-1)


def test_rows_outside_the_world_are_named(world: World) -> None:
    with pytest.raises(DataError, match="expected user rows from 0 to 59, got -1"):
        world.affinity(np.array([-1]), np.array([0]), np.array([world.end]))
    with pytest.raises(DataError, match="expected item rows from 0 to 149, got 150"):
        world.affinity(np.array([0]), np.array([150]), np.array([world.end]))


def queries(world: World, count: int) -> Query:
    return Query.of([[row % world.n_items] for row in range(count)], [0] * count, [world.end] * count)


def test_a_response_follows_from_the_seeds_and_not_from_the_batch(world: World) -> None:
    query, slate = queries(world, 50), torch.from_numpy(world.best(np.zeros(50, np.int64), world.end, 8))
    whole = world.respond(query, slate)
    assert torch.equal(whole.clicks, world.respond(query, slate).clicks)
    assert torch.equal(whole.clicks[20:23], world.respond(query.take(slice(20, 23)), slate[20:23]).clicks)
    assert not torch.equal(whole.clicks, world.respond(query, slate, seed=1).clicks)


def test_the_same_item_is_taken_more_often_near_the_top(world: World) -> None:
    best = int(world.best(np.array([0]), world.end, 1)[0, 0])
    outcomes = world.respond(queries(world, 4000), torch.full((4000, 10), best))
    taken, looked = outcomes.clicks.double().mean(0), outcomes.examined.double().mean(0)
    assert taken[0] > taken[4] > taken[9] > 0
    np.testing.assert_allclose(looked.numpy(), 0.85 ** np.arange(10), atol=0.03)
    np.testing.assert_allclose((taken / looked).numpy(), outcomes.affinity.mean(0).numpy(), atol=0.05)


def test_nothing_is_taken_that_was_not_looked_at_and_nothing_from_an_empty_place(world: World) -> None:
    outcomes = world.respond(queries(world, 300), torch.tensor([[0, -1, 2]]).repeat(300, 1))
    assert not (outcomes.clicks & ~outcomes.examined).any()
    assert not outcomes.clicks[:, 1].any()
    assert (outcomes.affinity[:, 1] == 0).all()


def test_a_request_without_any_history_is_answered_too(world: World) -> None:
    query = queries(world, 3)
    bare = replace(query, history=query.history[:, :0])
    assert world.respond(bare, torch.tensor([[1, 2]] * 3)).clicks.shape == (3, 2)
