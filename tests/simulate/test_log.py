"""Simulated logs: reproducible, causal, long-tailed, of any size."""

import numpy as np
import pytest

from shortlist.data import Dataset
from shortlist.errors import ConfigError
from shortlist.simulate import World, log, make_world, simulate_log
from shortlist.simulate.log import CategorySampler, _choose
from shortlist.simulate.sessions import event_counts, sample_sessions
from shortlist.simulate.world import DAY


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(400, 300, 12, seed=5)


@pytest.fixture(scope="module")
def data(world: World) -> Dataset:
    return simulate_log(world, 16_000, seed=1)


def test_the_log_depends_only_on_the_seed(world: World, data: Dataset) -> None:
    assert simulate_log(world, 16_000, seed=1).fingerprint == data.fingerprint
    assert simulate_log(world, 16_000, seed=2).fingerprint != data.fingerprint


def test_events_happen_after_item_release_and_between_user_arrival_and_departure(
    world: World, data: Dataset
) -> None:
    events = data.events
    assert (events.times >= world.release_times[events.items]).all()
    begin = world.start + world.arrivals[events.users] * world.days * DAY
    end = begin + world.lifetimes[events.users] * world.days * DAY
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


def test_users_rarely_repeat_an_item(data: Dataset) -> None:
    pairs = np.unique(data.events.users.astype(np.int64) * 300 + data.events.items)
    assert len(pairs) > 0.95 * len(data.events)


def test_the_category_repeats_more_often_within_a_session_than_across_sessions(
    world: World, data: Dataset
) -> None:
    events = data.events
    same_user = events.users[1:] == events.users[:-1]
    within = same_user & (np.diff(events.times) < 10 * 60_000)
    apart = same_user & ~within
    repeats = world.categories[events.items[1:]] == world.categories[events.items[:-1]]
    assert repeats[within].mean() > repeats[apart].mean() + 0.15


def test_chosen_items_have_higher_affinity_than_random_ones(world: World, data: Dataset) -> None:
    events = data.events
    liked = world.affinity(events.users, events.items, events.times)
    random = np.random.default_rng(0).integers(0, 300, len(events))
    assert liked.mean() > 4 * world.affinity(events.users, random, events.times).mean()


def test_small_groups_of_users_give_a_log_with_the_same_distributions(
    world: World, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "CELLS", 300 * 50)  # 50 users at a time
    reports: list[tuple[str, int, int]] = []
    small = simulate_log(world, 16_000, seed=1, progress=lambda *report: reports.append(report))
    assert reports[-1] == ("simulate", 8, 8)
    np.testing.assert_array_equal(small.events.lengths, data.events.lengths)
    assert np.corrcoef(small.events.popularity, data.events.popularity)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_events"), [(1, 1, 5), (1, 40, 100), (50, 1, 60), (30, 10, 7)]
)
def test_a_log_can_have_any_size(n_users: int, n_items: int, n_events: int) -> None:
    made = make_world(n_users, n_items, 24, seed=2)
    data = simulate_log(made, n_events)
    assert len(data.events) == n_events
    assert (data.events.times >= made.release_times[data.events.items]).all()
    assert data.catalog.title(n_items - 1)


def test_event_counts_are_exact_and_times_are_sorted(world: World) -> None:
    counts = event_counts(world, 12_345)
    assert counts.sum() == 12_345
    users = np.argsort(-counts)[:20]
    sessions = sample_sessions(world, users, counts[users], np.random.default_rng(0))
    assert (np.diff(sessions.times, axis=1) >= 0).all()
    assert sessions.starts[:, 0].all()


def test_invalid_settings_are_refused_by_name(world: World) -> None:
    with pytest.raises(ConfigError, match="expected 1 event or more and a seed from 0, got 0 and 0"):
        simulate_log(world, 0)


COUNT = 8_000


def choice_probabilities(world: World, user: int, after: int) -> np.ndarray:
    """The exact choice probability of every item, from the affinity."""
    items = np.arange(world.n_items)[None]
    affinity = world.affinity(np.array([user]), items, np.array([world.end]), np.array([after]))[0]
    odds = affinity / (1 - affinity)
    return odds / odds.sum()


def frequencies(items: np.ndarray, world: World) -> np.ndarray:
    return np.bincount(items.ravel(), minlength=world.n_items) / items.size


def test_items_are_sampled_by_category_share_and_appeal() -> None:
    world = make_world(5, 40, 4, seed=0)
    shares = world.shares(np.zeros(COUNT, np.int64), np.full(COUNT, world.end), np.full(COUNT, -1))
    sampled = CategorySampler.of(world).sample(shares, 16, np.random.default_rng(0))
    expected = shares[0, world.categories] * world.appeal
    assert np.abs(frequencies(sampled, world) - expected).sum() < 0.02


def test_a_choice_among_many_considered_items_follows_the_choice_model() -> None:
    world = make_world(5, 40, 4, seed=1)
    users, times, after = np.full(COUNT, 3), np.full(COUNT, world.end), np.full(COUNT, 7)
    rng = np.random.default_rng(0)
    considered = CategorySampler.of(world).sample(world.shares(users, times, after), 200, rng)
    chosen = _choose(considered, world.utility(users, considered, times, after), rng)
    assert np.abs(frequencies(chosen, world) - choice_probabilities(world, 3, 7)).sum() < 0.1


def test_the_oldest_item_of_every_category_is_released_at_the_start() -> None:
    world = make_world(5, 60, 8, seed=2)
    oldest = CategorySampler.of(world).oldest
    assert (world.categories[oldest] == np.arange(8)).all()
    assert (world.release_times[oldest] <= world.start).all()
