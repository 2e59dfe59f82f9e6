import dataclasses
import json

import numpy as np
import pytest
import torch

from shortlist.artifact.as_json import as_json
from shortlist.data import HeldOut
from shortlist.errors import ConfigError, ConservationError, DataError
from shortlist.evaluate import pipeline_evaluation as module
from shortlist.evaluate.evaluation import evaluate
from shortlist.evaluate.pipeline_evaluation import evaluate_pipeline
from shortlist.evaluate.protocol.baselines import baselines
from shortlist.evaluate.protocol.held_out import held_out_part, split_of
from shortlist.evaluate.protocol.run_warnings import training_warnings
from shortlist.evaluate.segments import segments
from shortlist.grammar import as_pipeline
from shortlist.metrics.ranking import recall
from shortlist.pipeline.about import About, TrainingHistory
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.simulate import embedded
from shortlist.stages import Seen
from shortlist.train import TrainContext
from shortlist.train.models.counting.counts import PopularTrainer


@pytest.fixture(scope="module")
def found(world, recommender):
    return evaluate(recommender, world)


@pytest.fixture(scope="module")
def bare(world, recommender):
    split = world.split()
    return evaluate_pipeline(recommender.as_measured().pipeline, split.test, split.train)


def test_trained_pipeline_beats_popularity(found, world):
    assert found.differences["popularity"]["recall@20"].low > 0
    assert found.users == len(world.split().test)
    assert found.about.name == "tiny"


def test_stage_losses_balance(found):
    stages = found.losses.stages
    assert found.losses.relevant == found.losses.returned + sum(stage.lost for stage in stages)
    assert [stage.entered for stage in stages[1:]] == [stage.survived for stage in stages[:-1]]


def test_evaluation_of_a_bundle_has_the_numbers_of_its_bare_pipeline(found, bare):
    for name, metrics in bare.metrics(seed=0).items():
        assert found.metrics[name] == metrics
    for name, tests in bare.differences(seed=0).items():
        assert found.differences[name] == tests
    assert [dataclasses.replace(one, ms=0) for one in found.losses.stages] == [
        dataclasses.replace(one, ms=0) for one in bare.losses.stages
    ]


def test_metrics_are_those_of_the_slates(bare, world):
    relevant = world.split().test.relevant()
    assert torch.equal(bare.scores["recall@20"], recall(bare.slates, relevant, 20))
    hits = (bare.scores["recall@20"] * (relevant >= 0).sum(1)).sum()
    assert round(hits.item()) == bare.losses.returned == int(bare.user_losses.alive[-1])


def test_popularity_against_itself_has_no_difference(world):
    split = world.split()
    popular = PopularTrainer().fit({"name": "popular"}, TrainContext(split.train, world.catalog))
    pipeline = as_pipeline(popular % len(world.items) >> Seen() % 20)
    result = evaluate_pipeline(pipeline, split.test, split.train)
    assert result.differences()["popularity"]["recall@20"].difference == 0.0


def test_segments_partition_the_requests(world):
    split = world.split()
    parts = segments(split.test, split.train)
    assert bool((parts["active"] ^ parts["few events"]).all())
    assert bool((parts["mostly popular items"] ^ parts["mostly tail items"]).all())
    assert bool(parts["new users"].all())  # held-out users have no training events
    assert not bool(segments(world.split(protocol="leave-last-out").test, split.train)["new users"].all())


def test_empty_held_out_set_is_refused(world, recommender):
    nothing = np.empty(0, np.int64)
    with pytest.raises(DataError, match="expected held-out users"):
        evaluate_pipeline(
            recommender.pipeline, HeldOut(world.events, nothing, nothing, nothing), world.events
        )


def test_baselines_are_evaluated_on_the_same_users(found, bare, world):
    split = world.split()
    counted = ["popularity", "popular in window", "last click"]
    assert list(found.metrics) == ["pipeline", *counted, "ease", "item-knn"]
    assert list(bare.baselines) == counted
    assert {system.users for system in found.metrics.values()} == {len(split.test)}
    assert found.best_baseline == max(found.differences, key=found.mean)
    for name, slates in baselines(split.test, split.train, 20).items():
        assert torch.equal(bare.baselines[name]["recall@20"], recall(slates, split.test.relevant(), 20))


def test_slates_of_a_pipeline_equal_those_of_its_evaluation(bare, world, recommender):
    assert torch.equal(slates_of(recommender.as_measured().pipeline, world.split().test, 20), bare.slates)


def test_folders_are_opened(found, bundle, data_folder):
    assert evaluate(bundle, str(data_folder)).metrics == found.metrics


def test_validation_users_are_another_part(world, recommender):
    found = evaluate(recommender, world, on="valid")
    assert found.users == len(world.split().valid)
    assert found.protocol.on == "valid"


def test_other_data_and_other_parts_are_refused(world, recommender):
    with pytest.raises(ConfigError, match="tiny: was trained on other data") as refused:
        split_of(recommender, embedded(seed=5, size="small"))
    assert "a copy from before, or train it on these events: shortlist refresh BUNDLE" in str(refused.value)
    with pytest.raises(ConfigError, match="test or valid, got 'everything'"):
        held_out_part(world.split(), "everything")


def test_slates_that_disagree_with_the_losses_are_refused(world, recommender, monkeypatch):
    split = world.split()
    monkeypatch.setattr(module, "is_in", lambda items, rows: torch.ones_like(items, dtype=torch.bool))
    with pytest.raises(ConservationError, match="survive the last stage"):
        evaluate_pipeline(recommender.pipeline, split.test, split.train)


def test_json_has_every_field_and_no_nan(found):
    values = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert set(values) == {field.name for field in dataclasses.fields(found)}
    pipeline = values["metrics"]["pipeline"]["metrics"]["recall@20"]
    assert pipeline["low"] <= pipeline["mean"] <= pipeline["high"]
    assert values["losses"]["returned"] == found.losses.returned


def test_text_has_the_recall_of_every_system_and_a_line_per_stage(found):
    text = str(found)
    assert f"pipeline {found.mean('pipeline'):.4f}, popularity {found.mean('popularity'):.4f}" in text
    assert len(text.splitlines()) == 3 + len(found.losses.stages)


def test_trainings_that_did_not_converge_are_warned_of():
    about = About(
        training={
            "towers": TrainingHistory(10, 10, 10, converged=False),
            "rank": TrainingHistory(5, 10, 3, converged=True, warnings=("few requests",)),
        }
    )
    unfinished, warned = training_warnings(about)
    assert "stage 'towers' did not converge" in unfinished
    assert "best epoch 10 of 10" in unfinished
    assert warned == "few requests"
