import pytest
import torch

from shortlist.data import Dataset
from shortlist.errors import ArtifactError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.trials import DEPTH, ModelTrial
from shortlist.lab.experiments.trees.trial import settings_without_device
from shortlist.train.jtr import JTRTrainer
from shortlist.train.models.counting.last_click import LastClickTrainer
from shortlist.train.registry import make_trainer
from tests.lab.experiments.training_calls import record_training

LAST = {"protocol": "leave-last-out"}
TINY = make_trainer(
    "sum-pooling",
    width=8,
    hidden=8,
    max_history=10,
    epochs=2,
    batch_size=256,
    early_stop_metric="ndcg@10",
    device="cpu",
)


@pytest.fixture
def trial(world: Dataset) -> ModelTrial:
    return ModelTrial("world", world, 0, LAST)


def test_scores_are_those_of_the_model_on_test_users_without_seen_items(trial):
    found = trial.scores("steps", LastClickTrainer())
    model = LastClickTrainer().learn(trial.split.train)
    expected = score_slates(rank_model(model, trial.split.test, DEPTH), trial.split.test.relevant(), (10, 20))
    assert all(torch.equal(found[name], expected[name]) for name in expected.values)
    assert len(found) == len(trial.split.test)
    items = trial.cache.tensors["world/steps/0"]
    assert items.dtype == torch.int32
    histories = trial.split.test.query(width=1000).history.tolist()
    for answer, history in zip(items.tolist(), histories, strict=True):
        assert not set(history) & set(answer) - {-1}


def test_validation_values_are_recorded_with_their_seconds(trial):
    trial.scores("pooled", TINY)
    facts = trial.facts("pooled")
    assert facts["trainer"] == "SequenceTrainer"
    assert facts["settings"]["early_stop_metric"] == "ndcg@10"
    seconds = [at for at, _ in facts["curve"]]
    assert seconds == sorted(seconds)
    assert 0 < seconds[0] < seconds[-1] <= facts["seconds"]
    assert [value for _, value in facts["curve"]] == facts["history"]["validation"]
    assert trial.cache.training["world/pooled/0"].epochs == 2
    trial.scores("steps", LastClickTrainer())
    assert trial.facts("steps")["curve"] == []
    assert "history" not in trial.facts("steps")


def test_cached_answers_need_no_training_on_any_device(world, tmp_path, monkeypatch):
    path, called = tmp_path / "answers", record_training(monkeypatch)
    first = ModelTrial("world", world, 0, LAST, AnswerCache.open(path)).scores("pooled", TINY)
    again = ModelTrial("world", world, 0, LAST, AnswerCache.open(path))
    found = again.scores("pooled", TINY.with_settings(device="auto"))
    assert called == ["SequenceTrainer"]
    assert torch.equal(found["ndcg@20"], first["ndcg@20"])
    again.scores("other", TINY)
    ModelTrial("world", world, 1, LAST, AnswerCache.open(path)).scores("pooled", TINY)
    assert len(called) == 3


def test_answers_of_other_settings_and_of_other_experiments_are_refused(trial):
    trial.scores("pooled", TINY)
    with pytest.raises(ArtifactError, match=r"other settings \(epochs 2, now 3\)"):
        trial.scores("pooled", TINY.with_settings(epochs=3))
    trial.cache.get("world/steps/0", lambda: (torch.zeros(2, 5, 40), {}))  # as experiments on trees cache it
    with pytest.raises(ArtifactError, match="'world/steps/0' was cached by an experiment on other users"):
        trial.scores("steps", LastClickTrainer())


def test_all_settings_except_the_device_are_recorded():
    settings = settings_without_device(TINY)
    assert "device" not in settings
    assert settings["hidden"] == 8
    assert "device" not in settings_without_device(JTRTrainer())
