from dataclasses import replace

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.rankers.two_tower_scorer import TowerScorerTrainer
from tests.train.rankers.requests import context_of


@pytest.fixture(scope="module")
def context(world) -> TrainContext:
    return context_of(world)


def test_scorer_starts_from_a_nominator_and_leaves_it_unchanged(context, recommender):
    towers = next(part for part in recommender.pipeline.nominators if part.title == "towers")
    before = {name: tensor.clone() for name, tensor in towers.tensors().items()}
    trainer = TowerScorerTrainer(start="towers", epochs=2)
    stage = trainer.fit({"name": "pre"}, replace(context, fitted={"towers": towers}))
    check_stage(stage, len(context.catalog))
    assert all(torch.equal(before[name], tensor) for name, tensor in towers.tensors().items())
    assert not torch.equal(stage.towers.items(), towers.model.items())


def test_scorer_trains_its_own_towers_without_start(context):
    stage = TowerScorerTrainer(width=4, epochs=1).fit({"name": "pre"}, context)
    check_stage(stage, len(context.catalog))


def test_start_that_is_no_two_tower_nominator_is_refused(context):
    with pytest.raises(ConfigError, match="'nobody'"):
        TowerScorerTrainer(start="nobody").fit({}, context)
