"""The trainer of the blend ranker: weights chosen on validation requests, kept in a refit; works without LightGBM."""

from dataclasses import replace

import pytest
import torch

from shortlist.stages import BlendScorer
from shortlist.train.context import TrainContext
from shortlist.train.rankers import boosted_ranker
from shortlist.train.rankers.blend_ranker import BlendRankerTrainer
from tests.train.rankers.requests import context_of, share_right

QUICK = BlendRankerTrainer(epochs=3, hidden=(8,), trees=10, min_leaf_size=2)


@pytest.fixture
def context(world) -> TrainContext:
    return context_of(world)


def context_with_note(context: TrainContext, notes: dict) -> TrainContext:
    return replace(context, note=notes.__setitem__)


def test_ranker_learns_that_the_nominators_rank_is_right(context):
    pytest.importorskip("lightgbm")
    notes = {}
    stage = QUICK.fit({"name": "rank"}, context_with_note(context, notes))
    assert share_right(stage, context) > 0.9
    assert sum(notes["rank"].weights.values()) == pytest.approx(1, abs=1e-3)
    assert set(notes["rank"].weights) <= set(stage.components)


def test_tuned_ranker_is_no_worse_than_any_of_its_parts(context):
    pytest.importorskip("lightgbm")
    stage = QUICK.fit({"name": "rank"}, context)
    tuned, weights = QUICK.tune(stage, context.batches, "rank")
    assert weights.keys() <= set(stage.components)
    for number in range(len(stage.components)):
        alone = torch.zeros(len(stage.components), dtype=torch.float64)
        alone[number] = 1.0
        assert share_right(tuned, context) >= share_right(stage.renewed(weights=alone), context)
    assert (tuned.network is None) == ("network" not in weights)
    assert (tuned.trees is None) == ("trees" not in weights)


def test_refit_keeps_the_weights_of_the_stage_it_continues(context):
    pytest.importorskip("lightgbm")
    stage = QUICK.fit({"name": "rank"}, context)
    chosen = torch.zeros(len(stage.components), dtype=torch.float64)
    chosen[0] = 1.0
    again = QUICK.fit({"name": "rank"}, replace(context, warm={"rank": stage.renewed(weights=chosen)}))
    assert isinstance(again, BlendScorer)
    assert again.weights.tolist() == chosen.tolist()
    assert again.trees is None  # its weight is 0, so it was not trained
    alone = torch.zeros(len(stage.components), dtype=torch.float64)
    alone[1] = 1.0
    trees = QUICK.fit({"name": "rank"}, replace(context, warm={"rank": stage.renewed(weights=alone)}))
    assert (trees.network is None, trees.trees is None) == (True, False)


def test_without_lightgbm_the_network_is_trained_alone_and_the_history_says_so(context, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(boosted_ranker, "import_module", missing)
    notes = {}
    stage = QUICK.fit({"name": "rank"}, context_with_note(context, notes))
    assert stage.trees is None
    assert "trees" not in notes["rank"].weights
    assert "without boosted trees" in notes["rank"].warnings[0]
    assert "pip install 'shortlist[boosted]'" in notes["rank"].warnings[0]


def test_renewed_ranker_has_the_counts_of_all_events(world, context):
    pytest.importorskip("lightgbm")
    stage = QUICK.fit({"name": "rank"}, context)
    renewed = QUICK.renew(stage, TrainContext(world.events, world.catalog))
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.features.extras == stage.features.extras


def test_calibrated_scores_are_probabilities(context):
    pytest.importorskip("lightgbm")
    stage = BlendRankerTrainer(epochs=1, hidden=(8,), trees=3, min_leaf_size=2, calibrate="platt").fit(
        {}, context
    )
    one = context.batches[0]
    scores = stage.score(one.query, one.found)
    assert stage.probabilities
    assert bool(((scores > 0) & (scores < 1)).all())
