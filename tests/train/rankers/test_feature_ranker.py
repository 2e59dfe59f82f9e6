from dataclasses import replace

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.stages.ranking_features import RankingFeatures
from shortlist.testing.stages import check_stage
from shortlist.train.context import TrainContext
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from tests.train.rankers.requests import context_of, share_right


@pytest.fixture(scope="module")
def context(world) -> TrainContext:
    return context_of(world)


@pytest.mark.parametrize("negatives", ["all-candidates", "both"])
def test_ranker_learns_that_the_nominators_rank_is_right(context, negatives):
    trainer = FeatureRankerTrainer(negatives=negatives, epochs=10, learning_rate=1e-2)
    ranker = trainer.fit({"name": "rank"}, context)
    assert share_right(ranker, context) > 0.9
    check_stage(ranker, len(context.catalog), ("n",))


def test_ranker_reads_the_given_nominators_and_refuses_unknown_ones(context):
    ranker = FeatureRankerTrainer(epochs=1).fit({"nominators": ["n"]}, context)
    assert ranker.features.nominators == ("n",)
    with pytest.raises(ConfigError, match="'nobody'; expected some of n"):
        FeatureRankerTrainer(epochs=1).fit({"nominators": ["nobody"]}, context)


def test_few_targets_per_item_are_no_reason_to_warn(context):
    histories = {}
    FeatureRankerTrainer(epochs=1).fit({"name": "rank"}, replace(context, note=histories.__setitem__))
    assert histories["rank"].retrieved.retrieved < 20 * len(context.catalog)
    assert histories["rank"].warnings == ()


def test_ranker_can_be_calibrated(context):
    ranker = FeatureRankerTrainer(epochs=2, calibrate="platt").fit({"name": "rank"}, context)
    one = context.batches[4]
    assert ranker.probabilities
    assert float(ranker.score(one.query, one.found).mean()) == pytest.approx(5 / 30, abs=0.05)


def test_renewed_ranker_has_the_counts_of_all_events(world, context):
    trainer = FeatureRankerTrainer(epochs=1)
    ranker = trainer.fit({"name": "rank"}, context)
    renewed = trainer.renew(ranker, TrainContext(world.events, world.catalog))
    assert renewed.features.popularity.tolist() == world.events.popularity.tolist()
    assert renewed.network is ranker.network
    assert ranker.features.popularity.sum() < renewed.features.popularity.sum()


def test_features_of_the_same_candidates_are_computed_once(context, monkeypatch):
    calls = []
    compute = RankingFeatures.__call__

    def counted(self, query: Query, found: Candidates) -> torch.Tensor:
        calls.append(id(found))
        return compute(self, query, found)

    monkeypatch.setattr(RankingFeatures, "__call__", counted)
    FeatureRankerTrainer(epochs=5).fit({"name": "rank"}, context)
    # Once for training or validation, and those to train on once more for the scale.
    assert len(calls) == len(context.batches) + 8


def test_time_limit_ends_the_training_and_the_history_says_so(context):
    histories = {}
    trainer = FeatureRankerTrainer(epochs=10, minutes=1e-6)
    trainer.fit({"name": "rank"}, replace(context, note=histories.__setitem__))
    assert histories["rank"].epochs == 1
    assert histories["rank"].stopped
