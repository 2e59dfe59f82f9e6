"""Logs of worlds: reproducible, causal, shaped like real ones, of any size."""

import numpy as np
import pytest

from shortlist.data import Dataset
from shortlist.errors import ConfigError
from shortlist.simulate import World, log, make_world, simulate_log
from shortlist.simulate.sessions import event_counts, plan
from shortlist.simulate.world import DAY


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(400, 300, 12, seed=5)


@pytest.fixture(scope="module")
def data(world: World) -> Dataset:
    return simulate_log(world, 16_000, seed=1)


def test_the_same_seed_leaves_the_same_log_and_another_seed_another(world: World, data: Dataset) -> None:
    assert simulate_log(world, 16_000, seed=1).fingerprint == data.fingerprint
    assert simulate_log(world, 16_000, seed=2).fingerprint != data.fingerprint


def test_no_event_happens_before_its_item_is_born_or_outside_the_stay_of_its_user(
    world: World, data: Dataset
) -> None:
    events = data.events
    assert (events.times >= world.births[events.items]).all()
    begin = world.start + world.arrivals[events.users] * world.days * DAY
    end = begin + world.stays[events.users] * world.days * DAY
    assert (events.times >= begin - 10_000).all()  # arrivals have single precision
    assert (events.times <= np.minimum(end + DAY, world.end)).all()


def test_the_rows_of_the_data_are_the_rows_of_the_world(world: World, data: Dataset) -> None:
    assert len(data.events) == 16_000
    assert (data.events.n_users, data.events.n_items) == (400, 300)
    assert (data.users.id(42), data.items.id(17)) == ("u00042", "i00017")
    assert data.users.ids.to_pylist() == sorted(data.users.ids.to_pylist())
    names = [data.catalog.category(item) for item in range(300)]
    assert len({(name, row) for name, row in zip(names, world.categories.tolist(), strict=True)}) == 12


def test_items_and_users_have_long_tails(data: Dataset) -> None:
    popularity = np.sort(data.events.popularity)[::-1]
    lengths = np.sort(data.events.lengths)[::-1]
    assert popularity[:30].sum() > 2 * 0.1 * len(data.events)
    assert lengths[:40].sum() > 2 * 0.1 * len(data.events)
    assert lengths.min() >= 10
    assert np.median(lengths) < lengths.mean()


def test_what_is_popular_changes_with_time(data: Dataset) -> None:
    events = data.events
    order = np.argsort(events.times, kind="stable")
    third = len(events) // 3
    early, next_, late = (
        np.bincount(events.items[order[a : a + third]], minlength=300) for a in (0, third, 2 * third)
    )
    assert np.corrcoef(early, next_)[0, 1] > np.corrcoef(early, late)[0, 1]


def test_users_seldom_repeat_an_item(data: Dataset) -> None:
    pairs = np.unique(data.events.users.astype(np.int64) * 300 + data.events.items)
    assert len(pairs) > 0.95 * len(data.events)


def test_the_next_item_is_of_the_category_just_met_more_often_than_the_one_after_a_pause(
    world: World, data: Dataset
) -> None:
    events = data.events
    same_user = events.users[1:] == events.users[:-1]
    within = same_user & (np.diff(events.times) < 10 * 60_000)
    apart = same_user & ~within
    stays = world.categories[events.items[1:]] == world.categories[events.items[:-1]]
    assert stays[within].mean() > stays[apart].mean() + 0.15


def test_users_take_what_they_like(world: World, data: Dataset) -> None:
    events = data.events
    liked = world.affinity(events.users, events.items, events.times)
    random = np.random.default_rng(0).integers(0, 300, len(events))
    assert liked.mean() > 4 * world.affinity(events.users, random, events.times).mean()


def test_small_groups_of_users_make_a_log_of_the_same_shape(
    world: World, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CELLS", 300 * 50)  # 50 users at a time
    told: list[tuple[str, int, int]] = []
    small = simulate_log(world, 16_000, seed=1, progress=lambda *news: told.append(news))
    assert told[-1] == ("simulate", 8, 8)
    np.testing.assert_array_equal(small.events.lengths, data.events.lengths)
    assert np.corrcoef(small.events.popularity, data.events.popularity)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_events"), [(1, 1, 5), (1, 40, 100), (50, 1, 60), (30, 10, 7)]
)
def test_any_size_leaves_a_log(n_users: int, n_items: int, n_events: int) -> None:
    made = make_world(n_users, n_items, 24, seed=2)
    data = simulate_log(made, n_events)
    assert len(data.events) == n_events
    assert (data.events.times >= made.births[data.events.items]).all()
    assert data.catalog.title(n_items - 1)


def test_counts_of_events_are_exact_and_sessions_are_minutes_apart(world: World) -> None:
    counts = event_counts(world, 12_345)
    assert counts.sum() == 12_345
    users = np.argsort(-counts)[:20]
    visits = plan(world, users, counts[users], np.random.default_rng(0))
    assert (np.diff(visits.times, axis=1) >= 0).all()
    assert visits.opens[:, 0].all()


def test_wrong_settings_are_named(world: World) -> None:
    with pytest.raises(ConfigError, match="expected 1 event or more and a seed from 0, got 0 and 0"):
        simulate_log(world, 0)
