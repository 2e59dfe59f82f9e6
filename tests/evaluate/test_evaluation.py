import numpy as np
import pytest
import torch

from shortlist.data import HeldOut
from shortlist.errors import DataError
from shortlist.evaluate.baselines import baselines
from shortlist.evaluate.evaluation import evaluate, segments, slates_of
from shortlist.grammar import as_pipeline
from shortlist.metrics.ranking import recall
from shortlist.stages import Seen
from shortlist.train import TrainContext
from shortlist.train.models.counts import PopularTrainer


def test_a_trained_pipeline_beats_popularity_and_its_account_balances(world, recommender):
    split = world.split()
    found = evaluate(recommender.pipeline, split.test, split.train)
    assert found.scores.against(found.baseline, "recall@20").low > 0
    told = found.as_dict()
    stages = told["stages"]["stages"]
    assert told["stages"]["wanted"] == told["stages"]["returned"] + sum(one["lost"] for one in stages)
    assert [one["entered"] for one in stages[1:]] == [one["survived"] for one in stages[:-1]]
    assert told["users"] == len(split.test)


def test_metrics_are_those_of_the_slates(world, recommender):
    split = world.split()
    found = evaluate(recommender.pipeline, split.test, split.train)
    assert torch.equal(found.scores["recall@20"], recall(found.slates, split.test.relevant(), 20))
    hits = (found.scores["recall@20"] * (split.test.relevant() >= 0).sum(1)).sum()
    assert round(hits.item()) == found.funnel.returned


def test_popularity_measured_against_itself_is_no_difference(world):
    split = world.split()
    popular = PopularTrainer().fit({"name": "popular"}, TrainContext(split.train, world.catalog))
    found = evaluate(as_pipeline(popular % len(world.items) >> Seen() % 20), split.test, split.train)
    assert found.as_dict()["difference"]["recall@20"]["difference"] == 0.0


def test_segments_divide_the_cases(world):
    split = world.split()
    parts = segments(split.test, split.train)
    assert bool((parts["active"] ^ parts["few events"]).all())
    assert bool((parts["wants popular items"] ^ parts["wants tail items"]).all())
    assert bool(parts["new users"].all())  # held-out users were not learned from
    assert not bool(segments(world.split(protocol="leave-last-out").test, split.train)["new users"].all())


def test_no_cases_is_an_error(world, recommender):
    nothing = np.empty(0, np.int64)
    with pytest.raises(DataError, match="expected held-out cases"):
        evaluate(recommender.pipeline, HeldOut(world.events, nothing, nothing, nothing), world.events)


def test_the_yardsticks_stand_beside_the_pipeline_on_the_same_users(world, recommender):
    split = world.split()
    found = evaluate(recommender.pipeline, split.test, split.train)
    told = found.as_dict()
    assert list(told["metrics"]) == ["pipeline", "popularity", "popular in window", "last click"]
    assert {one["users"] for one in told["metrics"].values()} == {len(split.test)}
    assert told["difference"] == told["differences"]["popularity"]
    for name, slates in baselines(split.test, split.train, 20).items():
        assert torch.equal(found.baselines[name]["recall@20"], recall(slates, split.test.relevant(), 20))


def test_slates_alone_are_those_of_the_whole_evaluation(world, recommender):
    split = world.split()
    found = evaluate(recommender.pipeline, split.test, split.train)
    assert torch.equal(slates_of(recommender.pipeline, split.test, 20), found.slates)
