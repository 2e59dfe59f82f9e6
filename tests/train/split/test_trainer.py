"""Limits learned in the training of a recipe, saved, loaded, resized and diagnosed."""

import dataclasses

import numpy as np
import pytest

from shortlist.artifact.store import Lineage
from shortlist.data import Query
from shortlist.diagnose.knobs.sizes import sizes_of, with_sizes
from shortlist.errors import ConfigError
from shortlist.grammar import leaves
from shortlist.nominate import Split
from shortlist.pipeline import load_recommender, parse_recipe, save_recommender
from shortlist.pipeline.recommender import Request
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.pipeline import train_pipeline
from shortlist.train.refit import measured, refit
from shortlist.train.split.learn import SplitRule, segments_of
from shortlist.train.split.ranks import TargetRanks
from shortlist.train.split.trainer import SplitTrainer
from tests.train.split.test_ranks import BATCHES
from tests.worlds import run_checked

SMALL = """
pipeline = "popular % 30 + covisit % 40 >> split % 25 >> rank % 10"
[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.split]
type = "split"
[stages.split.train]
by = "history"
segments = 2
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 2
"""


@pytest.fixture(scope="module")
def run(world):
    return train_pipeline(parse_recipe(SMALL), world)


def split_of(pipeline) -> Split:
    return next(one for one in leaves(pipeline) if isinstance(one, Split))


def test_limits_give_the_budget_in_distinct_candidates(run):
    split = split_of(run.recommender.pipeline)
    assert split.nominators == ("popular", "covisit")
    assert len(split.limits) == len(split.history) + 1 == 2
    assert all(25 <= sum(row) <= 50 for row in split.limits)
    assert split.k == 25


def test_ranker_is_trained_and_served_behind_the_split(run, world):
    slate = run_checked(run.recommender.pipeline, world.split().test.query())
    split = next(step for step in slate.trace.steps if step.name == "split")
    assert int(split.after.valid.sum(1).max()) <= 25
    assert slate.items.shape[1] == 10


def test_limits_are_in_the_saved_bundle(run, tmp_path):
    trained = run.recommender
    save_recommender(trained, tmp_path / "saved", Lineage("data", 0, "test", {}))
    loaded = load_recommender(tmp_path / "saved")
    assert loaded.pipeline.expression() == trained.pipeline.expression()
    assert [*map(tuple, split_of(loaded.pipeline).limits)] == [*split_of(trained.pipeline).limits]
    assert loaded.recommend(Request()).items.equal(trained.recommend(Request()).items)
    assert "limits = [[" in (tmp_path / "saved" / "pipeline.toml").read_text()


def test_gate_is_trained_saved_and_served(world, tmp_path):
    gated = SMALL.replace('by = "history"\nsegments = 2', 'by = "gate"')
    trained = train_pipeline(parse_recipe(gated), world).recommender
    split = split_of(trained.pipeline)
    assert len(split.limits) == 1
    query = world.split().test.query()
    assert split.rates(query).unique(dim=0).shape[0] > 2
    save_recommender(trained, tmp_path / "gated", Lineage("data", 0, "test", {}))
    loaded = load_recommender(tmp_path / "gated")
    assert split_of(loaded.pipeline).rates(query).equal(split.rates(query))
    run_checked(loaded.pipeline, query)


def test_budget_is_a_size_that_can_be_changed(run, world):
    pipeline = run.recommender.pipeline
    size = next(one for one in sizes_of(pipeline, 10, 100) if one.stage == "split")
    assert (size.knob, size.value) == ("cut", 25)
    smaller = with_sizes(pipeline, {size.key: 12})
    slate = run_checked(smaller, world.split().test.query())
    step = next(one for one in slate.trace.steps if one.name == "split")
    assert int(step.after.valid.sum(1).max()) == 12


def test_refit_learns_the_limits_again(run, world):
    served = refit(measured(run, world.split()), world)
    split = split_of(served.pipeline)
    assert len(split.limits) == len(split.history) + 1
    assert all(25 <= sum(row) <= 50 for row in split.limits)


def test_limits_of_the_recipe_stay(world):
    given = SMALL.replace(
        'type = "split"\n', 'type = "split"\nnominators = ["popular", "covisit"]\nlimits = [[5, 20]]\n'
    )
    plain = given.replace('by = "history"\n', "")
    trained = train_pipeline(parse_recipe(plain), world).recommender
    assert split_of(trained.pipeline).settings()["limits"] == [[5, 20]]
    with pytest.raises(ConfigError, match='expected no by = "history" where limits are given'):
        train_pipeline(parse_recipe(given), world)


def test_small_budget_is_learned_in_small_blocks(world):
    small = SMALL.replace('by = "history"\nsegments = 2', "floor = 1").replace("split % 25", "split % 12")
    split = split_of(train_pipeline(parse_recipe(small), world).recommender.pipeline)
    assert sum(split.limits[0]) > 10


def test_limits_without_nominators_are_refused(world):
    given = SMALL.replace('type = "split"\n', 'type = "split"\nlimits = [[5, 20]]\n')
    with pytest.raises(
        ConfigError, match=r"\[stages.split\]: expected nominators and limits together, got limits; add nom"
    ):
        train_pipeline(parse_recipe(given), world)


def context_of(world, *batches: RequestBatch) -> TrainContext:
    return TrainContext(world.split().train, world.catalog, batches=batches)


def test_split_before_a_pool_is_refused(world):
    with pytest.raises(ConfigError, match="got none; put it after a pool"):
        SplitTrainer().fit({"k": 10}, context_of(world))


def test_requests_without_found_targets_are_refused(world):
    batch = dataclasses.replace(BATCHES[0], targets=BATCHES[0].targets * 0 + 39)
    with pytest.raises(ConfigError, match="no nominator returns any target of 2 training requests"):
        SplitTrainer().fit({"k": 10}, context_of(world, batch))


def ranks_of(rank: np.ndarray, lengths: np.ndarray) -> TargetRanks:
    rows = np.arange(len(rank))
    return TargetRanks(("a", "b"), rank, rows, lengths, rows)


def test_segments_have_about_as_many_requests():
    lengths = np.repeat([1, 2, 3, 4, 5, 9, 20, 50], 10)
    ranks = ranks_of(np.zeros((80, 2), np.int64), lengths)
    history = SplitRule(by="history", segments=4).history(ranks)
    counts = np.bincount(segments_of(lengths, history))
    assert counts.tolist() == [20, 20, 20, 20]
    assert SplitRule(by="none").history(ranks) == ()
    assert SplitRule(by="history").history(ranks_of(np.zeros((9, 2), np.int64), np.full(9, 7))) == ()


def test_serving_and_training_put_a_history_into_the_same_segment():
    lengths = np.arange(12)
    split = Split(nominators=("a",), limits=((1,), (1,), (1,)), history=(2, 7))
    query = Query.of([[1] * int(length) for length in lengths])
    assert split.segments(query).tolist() == segments_of(lengths, split.history).tolist()


def test_floors_above_a_small_budget_are_lowered():
    ranks = ranks_of(np.zeros((40, 2), np.int64), np.ones(40, np.int64))
    assert SplitRule(floor=5, by="none").limits(ranks, 4, None, ()).tolist() == [[2, 2]]


@pytest.mark.parametrize("settings", [{"by": "user"}, {"segments": 0}, {"shrink": -1.0}, {"block": 0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match="split: "):
        SplitTrainer(**settings)
