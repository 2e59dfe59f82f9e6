"""The MLP ranker learns from nominations, and has the counts of all events when it is renewed."""

from dataclasses import replace

import pytest
import torch

from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.rankers.mlp_ranker import MLPRankerTrainer
from tests.train.rankers.requests import context_of, share_right

QUICK = MLPRankerTrainer(epochs=8, learning_rate=1e-2, n_negatives=12, width=4, hidden=(16,))


@pytest.fixture(scope="module")
def context(world) -> TrainContext:
    return context_of(world)


@pytest.mark.parametrize("negatives", ["candidates", "both", "all-candidates"])
def test_ranker_learns_that_the_nominators_rank_is_right(context, negatives):
    stage = replace(QUICK, negatives=negatives).fit({"name": "rank"}, context)
    assert share_right(stage, context) > 0.9
    assert stage.settings()["nominators"] == ["n"]
    assert "category" in stage.settings()["columns"]
    check_stage(stage, len(context.catalog), ("n",))


@pytest.mark.parametrize("calibrate", ["platt", "isotonic"])
def test_calibrated_scores_are_probabilities(context, calibrate):
    stage = replace(QUICK, calibrate=calibrate).fit({"name": "rank"}, context)
    one = context.batches[4]
    assert stage.probabilities
    assert float(stage.score(one.query, one.found).mean()) == pytest.approx(5 / 30, abs=0.05)


def test_renewed_ranker_has_the_counts_of_all_events(world, context):
    trainer = replace(QUICK, epochs=1, calibrate="platt")
    stage = trainer.fit({"name": "rank"}, context)
    renewed = trainer.renew(stage, TrainContext(world.events, world.catalog))
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.features.columns is stage.features.columns
    assert renewed.network is stage.network
    assert renewed.probabilities


def test_same_seed_gives_the_same_weights(context):
    short = replace(QUICK, epochs=1)
    one, two = (short.fit({}, replace(context, seed=seed)).tensors() for seed in (3, 3))
    other = short.fit({}, replace(context, seed=4)).tensors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["network.items.weight"], other["network.items.weight"])
