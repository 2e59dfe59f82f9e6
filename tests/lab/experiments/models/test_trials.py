from dataclasses import replace

import pytest
import torch

from shortlist.data import Dataset
from shortlist.errors import ArtifactError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.trials import DEEP, Course, settings_of
from shortlist.train.jtr import JTRTrainer
from shortlist.train.models.last_click import LastClickTrainer
from shortlist.train.models.sum_pooling import SumPoolingTrainer
from tests.lab.experiments.watching import watch_lessons

LAST = {"protocol": "leave-last-out"}
TINY = SumPoolingTrainer(
    width=8, hidden=8, max_history=10, epochs=2, batch_size=256, early_stop_metric="ndcg@10", device="cpu"
)


@pytest.fixture
def course(world: Dataset) -> Course:
    return Course("world", world, 0, LAST)


def test_scores_are_those_of_the_model_on_the_test_users_what_was_seen_left_out(course):
    found = course.scores("steps", LastClickTrainer())
    ranked = rank_model(course.models["steps"], course.split.test, DEEP)
    expected = score_slates(ranked, course.split.test.relevant(), (10, 20))
    assert all(torch.equal(found[name], expected[name]) for name in expected.values)
    assert len(found) == len(course.split.test)
    items = course.cache.tensors["world/steps/0"]
    assert items.dtype == torch.int32
    for row, case in zip(items.tolist(), course.split.test.query(width=1000).history.tolist(), strict=True):
        assert not set(case) & set(row) - {-1}


def test_what_the_judge_said_is_told_with_the_seconds(course):
    course.scores("pooled", TINY)
    facts = course.facts("pooled")
    assert facts["kind"] == "SumPoolingTrainer"
    assert facts["settings"]["early_stop_metric"] == "ndcg@10"
    seconds = [at for at, _ in facts["judged"]]
    assert seconds == sorted(seconds)
    assert 0 < seconds[0] < seconds[-1] <= facts["seconds"]
    assert [value for _, value in facts["judged"]] == list(course.models["pooled"].judged)
    course.scores("steps", LastClickTrainer())
    assert course.facts("steps")["judged"] == []


def test_kept_answers_are_not_learned_again_on_whatever_device(world, tmp_path, monkeypatch):
    path, taught = tmp_path / "answers", watch_lessons(monkeypatch)
    first = Course("world", world, 0, LAST, AnswerCache.open(path)).scores("pooled", TINY)
    again = Course("world", world, 0, LAST, AnswerCache.open(path))
    found = again.scores("pooled", replace(TINY, device="auto"))
    assert taught == ["SumPoolingTrainer"]
    assert torch.equal(found["ndcg@20"], first["ndcg@20"])
    assert again.models == {}
    again.scores("other", TINY)
    Course("world", world, 1, LAST, AnswerCache.open(path)).scores("pooled", TINY)
    assert len(taught) == 3


def test_answers_of_other_settings_and_of_other_experiments_are_refused(course):
    course.scores("pooled", TINY)
    with pytest.raises(ArtifactError, match=r"other settings \(epochs 2, now 3\)"):
        course.scores("pooled", replace(TINY, epochs=3))
    course.cache.get(
        "world/steps/0", lambda: (torch.zeros(2, 5, 40), {})
    )  # as the experiments on trees keep them
    with pytest.raises(
        ArtifactError, match="'world/steps/0' was kept by an experiment that asks other users"
    ):
        course.scores("steps", LastClickTrainer())


def test_all_settings_but_the_device_decide():
    told = settings_of(TINY)
    assert "device" not in told
    assert told["hidden"] == 8
    assert "device" not in settings_of(JTRTrainer())
