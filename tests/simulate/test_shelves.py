"""Drawing from the shelves follows the law of the world."""

import numpy as np

from shortlist.simulate import World, make_world
from shortlist.simulate.log import _pick
from shortlist.simulate.shelves import Shelves

COUNT = 8_000


def law(world: World, user: int, after: int) -> np.ndarray:
    """The exact chance of every item, from the affinity."""
    items = np.arange(world.n_items)[None]
    truth = world.affinity(np.array([user]), items, np.array([world.end]), np.array([after]))[0]
    odds = truth / (1 - truth)
    return odds / odds.sum()


def seen(items: np.ndarray, world: World) -> np.ndarray:
    return np.bincount(items.ravel(), minlength=world.n_items) / items.size


def test_items_come_by_category_and_appeal() -> None:
    world = make_world(5, 40, 4, seed=0)
    shares = world.shares(np.zeros(COUNT, np.int64), np.full(COUNT, world.end), np.full(COUNT, -1))
    drawn = Shelves.of(world).draw(shares, 16, np.random.default_rng(0))
    expected = shares[0, world.categories] * world.appeal
    assert np.abs(seen(drawn, world) - expected).sum() < 0.02


def test_a_pick_from_many_looks_follows_the_law_of_the_world() -> None:
    world = make_world(5, 40, 4, seed=1)
    users, times, after = np.full(COUNT, 3), np.full(COUNT, world.end), np.full(COUNT, 7)
    rng = np.random.default_rng(0)
    looks = Shelves.of(world).draw(world.shares(users, times, after), 200, rng)
    picked = _pick(looks, world.pull(users, looks, times, after), rng)
    assert np.abs(seen(picked, world) - law(world, 3, 7)).sum() < 0.1


def test_the_oldest_of_every_shelf_is_there_from_the_start() -> None:
    world = make_world(5, 60, 8, seed=2)
    oldest = Shelves.of(world).oldest
    assert (world.categories[oldest] == np.arange(8)).all()
    assert (world.births[oldest] <= world.start).all()
