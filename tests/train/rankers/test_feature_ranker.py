import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.testing.stages import check_stage
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer, TowerScorerTrainer


@pytest.fixture
def rehearsed(world) -> TrainContext:
    """Requests whose wanted candidates are those the nominator ranks first."""
    generator = torch.Generator().manual_seed(0)
    rounds = []
    for _ in range(10):
        items = torch.stack([torch.randperm(len(world.items), generator=generator)[:30] for _ in range(16)])
        ranks = torch.arange(30.0).expand(16, 30)
        columns = {"n.rank": ranks, "n.score": -ranks}
        found = Candidates.of(items, torch.zeros(16, 30), columns)
        history = torch.randint(0, len(world.items), (16, 6), generator=generator).tolist()
        rounds.append(RequestBatch(Query.of(history), found, items[:, :5]))
    return TrainContext(world.split().train, world.catalog, rounds=tuple(rounds))


def test_the_ranker_learns_that_the_nominators_rank_is_right(rehearsed):
    ranker = FeatureRankerTrainer(epochs=10, learning_rate=1e-2).fit({"name": "rank"}, rehearsed)
    round_ = rehearsed.rounds[0]
    scores = ranker.score(round_.query, round_.found)
    assert scores[:, :5].mean() > scores[:, 5:].mean() + 1
    check_stage(ranker, len(rehearsed.catalog), ("n",))


def test_the_ranker_can_be_told_whom_to_listen_to_and_refuses_strangers(rehearsed):
    told = FeatureRankerTrainer(epochs=1).fit({"nominators": ["n"]}, rehearsed)
    assert told.features.nominators == ("n",)
    with pytest.raises(ConfigError, match="'nobody'; expected some of n"):
        FeatureRankerTrainer(epochs=1).fit({"nominators": ["nobody"]}, rehearsed)


def test_the_pre_ranker_starts_from_a_nominator_or_from_scratch(rehearsed, recommender):
    towers = next(part for part in recommender.pipeline.nominators if part.title == "towers")
    started = TrainContext(
        rehearsed.events, rehearsed.catalog, rounds=rehearsed.rounds, fitted={"towers": towers}
    )
    before = {name: tensor.clone() for name, tensor in towers.tensors().items()}
    stage = TowerScorerTrainer(start="towers", epochs=2).fit({"name": "pre"}, started)
    check_stage(stage, len(rehearsed.catalog))
    assert all(torch.equal(before[name], tensor) for name, tensor in towers.tensors().items())
    assert not torch.equal(stage.tensors()["offered.weight"], before["offered.weight"])


def test_the_pre_ranker_refuses_a_start_that_is_no_tower(rehearsed):
    with pytest.raises(ConfigError, match="'nobody'"):
        TowerScorerTrainer(start="nobody").fit({}, rehearsed)


def test_a_renewed_ranker_knows_the_counts_of_all_events(world, rehearsed):
    trainer = FeatureRankerTrainer(epochs=1)
    ranker = trainer.fit({"name": "rank"}, rehearsed)
    renewed = trainer.renew(ranker, TrainContext(world.events, world.catalog))
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.network is ranker.network
    assert ranker.features.popularity.sum() < renewed.features.popularity.sum()
