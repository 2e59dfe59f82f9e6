"""A plan as TOML, and its budget."""

import tomllib

import numpy as np
import pytest

import shortlist
from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.errors import ConfigError
from shortlist.pipeline.recipe import parse_recipe
from shortlist.simulate import embedded
from shortlist.train.auto import estimates
from shortlist.train.auto.estimates import LEAST_SHARE, Meter, slope, some_items
from shortlist.train.auto.log_profile import log_profile
from shortlist.train.auto.plan import plan
from tests.train.logs import tastes


@pytest.fixture(scope="module")
def world():
    return embedded(0, "small")


@pytest.fixture(scope="module")
def made(world):
    return plan(world, minutes=0.05)


def test_toml_with_comments_is_the_recipe(made):
    read = parse_recipe(made.toml, "auto")
    assert (read.expression, dict(read.stages)) == (made.recipe.expression, dict(made.recipe.stages))
    assert dict(read.training) == dict(made.recipe.training)


def test_every_line_with_a_type_has_a_comment_and_what_was_left_out_is_listed(made):
    lines = made.toml.splitlines()
    assert all("  # " in line for line in lines if line.startswith(("type = ", "pipeline = ")))
    for name in made.left_out:
        assert any(line.startswith(f"# left out: {name}: ") for line in lines)
    assert set(tomllib.loads(made.toml)["stages"]) == set(made.recipe.stages)


def test_estimates_stay_within_the_budget(made):
    assert sum(made.estimates.values()) <= 60 * made.minutes


@pytest.mark.parametrize("minutes", [0, -1.0, float("nan"), float("inf")])
def test_budget_that_is_no_positive_number_is_refused(world, minutes):
    with pytest.raises(ConfigError, match="--minutes must be a positive number"):
        shortlist.plan(world, minutes=minutes)


def test_unknown_protocol_is_refused(world):
    with pytest.raises(ConfigError, match="--protocol must be one of"):
        shortlist.plan(world, protocol="weekly")


def test_profile_counts_what_training_sees(world):
    split = world.split()
    profile = log_profile(world, split)
    assert profile.histories == sum(np.unique(split.train.users, return_counts=True)[1] > 1)
    assert (profile.items, profile.validation) == (200, len(split.valid))
    assert profile.categories == 12
    assert profile.timed


def test_closed_form_grows_with_the_third_power_of_items_after_a_fixed_part(world, monkeypatch):
    monkeypatch.setattr(estimates, "EASE_ITEMS", (5, 10))
    ticks = iter([0.0, 3.0, 3.0, 13.0])  # 2 s, and 1 s or 8 s
    events = tastes()
    meter = Meter(events, Catalog.bare(Vocabulary.of(list(range(20)))), {}, clock=lambda: next(ticks))
    assert meter.ease() == pytest.approx(2 + (events.n_items / 5) ** 3)
    assert meter.ease() == pytest.approx(66)  # measured once


def test_neighbours_of_a_large_catalogue_grow_with_the_pairs_of_users(monkeypatch):
    monkeypatch.setattr(estimates, "NEIGHBOUR_ITEMS", (1, 0))
    monkeypatch.setattr(estimates, "NEIGHBOUR_EVENTS", (60, 120))
    events = tastes()
    ticks = iter([0.0, 3.0, 3.0, 13.0])  # 3 s and 10 s
    meter = Meter(events, Catalog.bare(Vocabulary.of(list(range(20)))), {}, clock=lambda: next(ticks))
    pairs = [int(np.square(one.lengths).sum()) for one in (meter._users(60), meter._users(120), events)]
    assert pairs[0] < pairs[1] < pairs[2]
    slope = 7 / (pairs[1] - pairs[0])
    assert meter.neighbours("co-visit") == pytest.approx(10 + slope * (pairs[2] - pairs[1]))


def test_seconds_per_unit_leave_out_what_both_runs_take_alike():
    assert slope((10, 50), (3.0, 7.0)) == pytest.approx(0.1)
    assert slope((10, 50), (8.0, 7.0)) == pytest.approx(LEAST_SHARE * 7 / 50)
    assert slope((10, 10), (1.0, 1.0)) == pytest.approx(0.1)


def test_ranker_and_epoch_are_measured(world):
    ticks = iter(range(1000))
    split = world.split()
    meter = Meter(split.train, world.catalog, split.settings, clock=lambda: float(next(ticks)))
    ranker = meter.ranker("feature-ranker")
    assert ranker.train >= ranker.once > 0
    assert ranker.answer > 0
    assert meter.epoch("sasrec", batch_size=16, width=8) > 0


def test_epoch_far_above_the_budget_is_measured_by_one_step(world):
    split, settings = world.split(), {"batch_size": 16, "width": 8}
    calls = {}
    for budget in (1.0, float("inf")):
        ticks = iter(range(1000))
        facts = (world.catalog, split.settings)
        meter = Meter(split.train, *facts, clock=lambda ticks=ticks: float(next(ticks)), budget=budget)
        assert meter.epoch("gru4rec", **settings) > 0
        calls[budget] = next(ticks) // 2
    assert calls == {1.0: 1, float("inf"): 3}


def meter_of(events: Interactions) -> Meter:
    return Meter(events, Catalog.bare(Vocabulary.of(list(range(events.n_items)))), {}, log_clock="order")


def test_ranker_is_measured_where_no_target_is_retrieved():
    events = Interactions.of(np.repeat(np.arange(300), 4), np.arange(1200))  # no item occurs twice
    assert meter_of(events).ranker("feature-ranker").train > 0


def test_exact_loss_over_a_large_catalogue_is_not_accepted():
    small, large = (Interactions.of([0, 0], [0, 1], n_items=count) for count in (100, 500_000))
    catalog = Catalog.bare(Vocabulary.of([0, 1]))
    assert Meter(small, catalog, {}).accepts("sasrec", loss="softmax")
    assert not Meter(large, catalog, {}).accepts("sasrec", loss="softmax")
    assert Meter(large, catalog, {}).accepts("sasrec", loss="sampled")


def test_exact_loss_is_not_accepted_with_long_histories_or_without_memory(monkeypatch):
    events = Interactions.of([0, 0], [0, 1], n_items=60_000)
    meter = Meter(events, Catalog.bare(Vocabulary.of([0, 1])), {})
    assert meter.accepts("sasrec", loss="softmax", max_history=50)
    assert not meter.accepts("sasrec", loss="softmax", max_history=200)
    monkeypatch.setattr(estimates, "available_memory", lambda device: 1000)
    assert not meter.accepts("sasrec", loss="softmax", max_history=50)


def test_sampled_items_keep_all_their_events():
    events = tastes()
    few = some_items(events, 5, 0)
    assert few.n_items == 5
    assert sorted(few.popularity) == sorted(events.popularity[np.random.default_rng(0).permutation(20)[:5]])


def test_epoch_of_a_graph_model_is_measured_on_all_events():
    events = embedded(0, "small").split().train
    assert meter_of(events).whole_epoch("lightgcn") > 0
