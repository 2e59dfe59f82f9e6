"""The network ranker learns from nominators' words, and follows all events when it is renewed."""

from dataclasses import replace

import pytest
import torch

from shortlist.pipeline import check_stage
from shortlist.train.material import Material
from shortlist.train.mlp_ranker import MLPRankerTrainer
from tests.train.rankers import rehearsed, share_right

QUICK = MLPRankerTrainer(epochs=8, rate=1e-2, drawn=12, width=4, hidden=(16,))


@pytest.fixture(scope="module")
def material(world) -> Material:
    return rehearsed(world)


@pytest.mark.parametrize("negatives", ["candidates", "both"])
def test_it_learns_that_the_nominators_rank_is_right(material, negatives):
    stage = replace(QUICK, negatives=negatives).fit({"name": "rank"}, material)
    assert share_right(stage, material) > 0.9
    assert stage.settings()["nominators"] == ["n"]
    assert "category" in stage.settings()["columns"]
    check_stage(stage, len(material.catalog), ("n",))


@pytest.mark.parametrize("how", ["platt", "isotonic"])
def test_it_tells_probabilities_on_request(material, how):
    stage = replace(QUICK, calibrate=how).fit({"name": "rank"}, material)
    one = material.rounds[4]
    assert stage.probabilities
    assert float(stage.score(one.query, one.found).mean()) == pytest.approx(5 / 30, abs=0.05)


def test_a_renewed_ranker_knows_the_counts_of_all_events(world, material):
    trainer = replace(QUICK, epochs=1, calibrate="platt")
    stage = trainer.fit({"name": "rank"}, material)
    renewed = trainer.renew(stage, Material(world.events, world.catalog))
    assert renewed.sheet.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.network is stage.network
    assert renewed.probabilities


def test_the_seed_decides(material):
    short = replace(QUICK, epochs=1)
    one, two = (short.fit({}, replace(material, seed=seed)).tensors() for seed in (3, 3))
    other = short.fit({}, replace(material, seed=4)).tensors()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["network.items.weight"], other["network.items.weight"])
