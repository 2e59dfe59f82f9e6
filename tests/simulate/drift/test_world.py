"""Drifting worlds have the distributions that their settings say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from shortlist.simulate.drift import SIZES, DriftSettings, make_drift_world
from shortlist.simulate.drift.world import CELLS, START, YEAR, Choice, event_counts, event_times, short_term

TINY = SIZES["tiny"]


def test_the_number_of_events_of_users_follows_the_power_law():
    settings = DriftSettings(users=20_000, least=3, most=12)
    counts = event_counts(settings, np.random.default_rng(0))
    observed = np.bincount(counts, minlength=13)[3:]
    assert stats.chisquare(observed, settings.law * settings.users).pvalue > 1e-3


def test_short_term_vectors_are_a_stationary_process_of_each_user():
    settings = DriftSettings(users=3, width=4, rho=0.9, drift=0.8)
    counts = np.array([20_000, 1, 30_000])
    vectors = short_term(counts, settings, np.random.default_rng(1)).astype(np.float64)
    assert len(vectors) == counts.sum()
    for own in (vectors[:20_000], vectors[20_001:]):
        assert own.std() == pytest.approx(0.8, rel=0.05)
        assert (own[1:] * own[:-1]).mean() / own.var() == pytest.approx(0.9, abs=0.02)
        noise = own[1:] - 0.9 * own[:-1]
        assert noise.std() == pytest.approx(0.8 * (1 - 0.81) ** 0.5, rel=0.02)


def test_short_term_vectors_equal_a_loop_over_users_and_events():
    settings = DriftSettings(users=4, width=2)
    counts = np.array([3, 1, 5, 3])
    found = short_term(counts, settings, np.random.default_rng(2))
    noise = np.random.default_rng(2).standard_normal((12, 2), dtype=np.float32) * np.float32(settings.drift)
    at = 0
    for count in counts:
        before = noise[at]
        np.testing.assert_allclose(found[at], before)
        for number in range(at + 1, at + count):
            before = settings.rho * before + (1 - settings.rho**2) ** 0.5 * noise[number]
            np.testing.assert_allclose(found[number], before, rtol=1e-5, atol=1e-6)
        at += count


def test_items_are_drawn_from_the_softmax_of_their_scores():
    rng = np.random.default_rng(3)
    items = torch.from_numpy(rng.normal(size=(12, 4)).astype(np.float32))
    bias = torch.linspace(1, -1, 12)
    long, short = rng.normal(size=(1, 4)).astype(np.float32), np.zeros((30_000, 4), np.float32)
    drawn = Choice(items, bias).draw(long, np.zeros(30_000, np.int32), short, rng.random(30_000))
    expected = torch.softmax(items @ torch.from_numpy(long[0]) + bias, 0).double().numpy()
    assert stats.chisquare(np.bincount(drawn, minlength=12), 30_000 * expected / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("n_items", [1, 2, 3, 10, 36, 50])
def test_draws_equal_a_search_in_all_cumulative_probabilities(n_items):
    rng = np.random.default_rng(n_items)
    items, bias = torch.from_numpy(rng.normal(size=(n_items, 3)).astype(np.float32)), torch.zeros(n_items)
    vectors, uniform = rng.normal(size=(500, 3)).astype(np.float32), rng.random(500)
    drawn = Choice(items, bias).draw(
        vectors, np.arange(500, dtype=np.int32), np.zeros((500, 3), np.float32), uniform
    )
    chances = torch.softmax((torch.from_numpy(vectors) @ items.T).double(), 1).numpy()
    expected = (chances.cumsum(1)[:, :-1] <= uniform[:, None]).sum(1)
    assert (drawn != expected).mean() <= 0.002  # draws at the border of two items


def test_items_of_a_world_fit_the_truth_at_their_positions():
    """The events at a position are drawn from the vectors at this position: the rank of an item is uniform."""
    world = make_drift_world(TINY, 0)
    owners = world.events.users
    logits = (world.long[owners] + world.short) @ world.item_vectors.T + world.bias
    chances = np.exp(logits - logits.max(1, keepdims=True)).astype(np.float64)
    chances /= chances.sum(1, keepdims=True)
    expected, variance = chances.sum(0), (chances * (1 - chances)).sum(0)
    score = (world.events.popularity - expected) / np.sqrt(variance)
    assert abs(score).max() < 4.5
    own = chances[np.arange(len(owners)), world.events.items].mean()
    assert own == pytest.approx((chances**2).sum(1).mean(), rel=0.1)


def test_times_are_uniform_and_ascending_for_every_user():
    counts = np.array([1, 4000, 2, 3000])
    times = event_times(counts, 0.0, np.random.default_rng(4))
    place = (times - times.min()) / (times.max() - times.min())
    for start, stop in ((1, 4001), (4003, 7003)):
        assert (np.diff(times[start:stop]) >= 0).all()
        assert stats.kstest(place[start:stop], "uniform").pvalue > 1e-3


def test_newcomers_join_in_the_second_half():
    times = event_times(np.full(400, 30), 1.0, np.random.default_rng(5)).reshape(400, 30)
    place = (times - START) / YEAR
    assert place.min() >= 0.5
    assert place.max() <= 1
    assert stats.kstest(2 * place.min(1) - 1, "uniform").statistic < 0.1


def test_a_seed_decides_the_world():
    one, same, other = (make_drift_world(TINY, seed) for seed in (0, 0, 1))
    assert one.events.fingerprint == same.events.fingerprint
    assert one.events.fingerprint != other.events.fingerprint
    assert one.events.n_users == TINY.users
    assert one.events.n_items == TINY.items


def test_blocks_of_draws_do_not_change_a_world(monkeypatch):
    whole = make_drift_world(TINY, 0)
    monkeypatch.setitem(CELLS, "cpu", 60 * 7)
    parts = make_drift_world(TINY, 0)
    assert (whole.events.items != parts.events.items).mean() < 1e-3  # draws at the border of two items


def test_a_world_without_drift_has_no_short_term_vectors():
    world = make_drift_world(replace(TINY, drift=0.0), 0)
    assert not world.short.any()
    assert len(world.mean) == TINY.width
