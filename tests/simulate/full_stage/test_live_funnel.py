"""The live funnel against the obvious cascade."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.simulate.full_stage.live_funnel import (
    duration_boosted,
    funnel_utility,
    live_funnel,
    random_score,
    shown_utility,
    top_items,
)
from shortlist.simulate.full_stage.make_short_video import make_short_video


def table_score(table):
    """A stage score that is read from a table [U, I]."""
    return lambda users, items: np.take_along_axis(
        table[users], np.broadcast_to(items, (len(users), items.shape[-1])), 1
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(1, 30), min_size=1, max_size=4), st.booleans())
def test_funnel_equals_sorting_and_cutting_one_user_at_a_time(seed, capacities, ties) -> None:
    """Also spec test 22: sizes min(c_i, |I^(i-1)|), nested sets, #{S >= i}."""
    rng = np.random.default_rng(seed)
    tables = [rng.standard_normal((3, 20)).astype(np.float32) for _ in capacities]
    tables = [np.round(one) if ties else one for one in tables]
    run = live_funnel(np.arange(3), 20, [table_score(one) for one in tables], capacities)
    reached = run.stages_reached(20)
    for user in range(3):
        left = list(range(20))
        for stage, (table, capacity) in enumerate(zip(tables, capacities, strict=True)):
            size = min(capacity, len(left))
            left = sorted(left, key=lambda item, table=table: (-table[user, item], item))[:capacity]
            assert run.kept[stage][user].tolist() == left
            assert len(left) == size == (reached[user] > stage).sum()


def test_utility_of_the_oracle_is_the_best_possible() -> None:
    world = make_short_video("tiny", 1)
    users, items = np.arange(world.n_users), np.arange(world.n_items)
    oracle = funnel_utility(users, world.n_items, [world.r] * 3, (60, 20, 5), world.r, cells=5000)
    best = np.sort(world.r(users, items), axis=1)[:, -5:].sum(axis=1)
    assert np.allclose(oracle, best, atol=1e-4)
    chance = funnel_utility(users, world.n_items, [random_score(4), world.r, world.r], (60, 20, 5), world.r)
    assert (chance <= best + 1e-4).all()
    assert chance.mean() < best.mean()


def test_blocks_of_users_do_not_change_the_utility() -> None:
    world, users = make_short_video("tiny", 1), np.arange(30)
    stages = ([random_score(4), world.r], (60, 5), world.r)
    whole, blocks = (funnel_utility(users, world.n_items, *stages, cells=cells) for cells in (10**6, 700))
    assert np.allclose(whole, blocks, atol=1e-4)


def test_misaligned_ranking_prefers_long_videos_and_loses_utility() -> None:
    world, users = make_short_video("tiny", 1), np.arange(60)
    duration = world.videos.log_duration
    runs = [
        live_funnel(users, world.n_items, [world.r, duration_boosted(world.r, duration, beta)], (60, 6))
        for beta in (0.0, 0.5, 2.0)
    ]
    mean = [duration[run.shown].mean() for run in runs]
    assert mean[0] < mean[1] < mean[2]
    assert shown_utility(runs[0], world.r).mean() > shown_utility(runs[2], world.r).mean()


def test_random_stage_is_fixed_by_its_seed() -> None:
    users, items = np.arange(4), np.arange(50)
    first, again, other = (top_items(items, random_score(seed)(users, items), 10) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_one_capacity_per_stage_is_required() -> None:
    for capacities in ((5, 2), (), (0,)):
        with pytest.raises(ConfigError, match="one positive capacity per stage"):
            live_funnel(np.arange(2), 10, [random_score(0)], capacities)
