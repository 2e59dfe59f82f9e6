import json
import sys

import pytest
import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.errors import ArtifactError, ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.baselines import SASREC
from shortlist.lab.experiments.models.sasrec_time import ALONE, sasrec_time
from shortlist.lab.experiments.models.trials import DEPTH
from shortlist.lab.render import result_drawing, result_page
from shortlist.lab.result import result_json
from tests.lab.experiments.results import check_result, ids, points
from tests.lab.experiments.training_calls import record_training

CURVE = "ndcg@10 of validation events"


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return tmp_path_factory.mktemp("timed") / "answers"


@pytest.fixture(scope="module")
def result(answers):
    return sasrec_time(None, "quick", [0, 1], cache_file=answers)


def test_validation_ndcg_is_reported_over_the_seconds_of_every_seed(result):
    check_result(result, "sasrec-time")
    (seconds,) = [one.values for one in result.rows if one.metric == "training seconds"]
    for seed in (0, 1):
        curve = points(result, f"sasrec, seed {seed}", CURVE)
        assert len(curve) == 2
        assert 0 < min(curve) < max(curve) <= seconds[seed]
    assert result.x == "seconds of training"
    assert ids(result) == {
        "sasrec, recall@10 on every seed",
        "sasrec, ndcg@10 on every seed",
        "seconds of training, the longest",
    }


def test_the_result_has_a_page_and_a_drawing(result):
    assert f"| sasrec, seed 0 | {CURVE} at " in result_page(result)
    assert "seconds of training" in result_drawing(result)


def test_the_command_makes_the_same_table_from_the_cache_without_training(
    result, answers, tmp_path, monkeypatch
):
    called = record_training(monkeypatch)
    arguments = ["--runs", "2", "--cache", str(answers), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "sasrec-time", *arguments])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == result_json(result)["rows"]
    assert called == []


def test_answers_of_other_settings_are_refused(result, answers, monkeypatch):
    monkeypatch.setattr(
        sys.modules["shortlist.lab.experiments.models.sasrec_time"], "quick", lambda trainer: SASREC
    )
    with pytest.raises(ArtifactError, match=f"'world/{ALONE}/0' was cached with other settings"):
        sasrec_time(None, "quick", [0], cache_file=answers)


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(ConfigError, match="sasrec-time: the full profile needs --data"):
        sasrec_time(None, "full")


def claims_of(world, tmp_path, seconds, positions):
    """Claims from answers with the relevant item at these positions, one per seed."""
    path = tmp_path / f"{seconds}{positions}"
    test = world.split(protocol="leave-last-out").test
    for seed, (position, took) in enumerate(zip(positions, seconds, strict=True)):
        items = torch.full((len(test), DEPTH), -1, dtype=torch.int32)
        items[:, position] = test.relevant()[:, 0]
        facts = {"seconds": took, "curve": [[took / 2, 0.1], [took, 0.2]]}
        AnswerCache.open(path).get(f"world/{ALONE}/{seed}", lambda items=items, facts=facts: (items, facts))
    result = sasrec_time(None, "quick", range(len(positions)), cache_file=path)
    return {one.id: (one.holds, one.estimate) for one in result.claims}


def test_the_worst_seed_decides_every_claim(world, tmp_path):
    good = claims_of(world, tmp_path, (60.0, 119.0), (0, 0))
    assert all(holds for holds, _ in good.values())
    assert good["seconds of training, the longest"][1] == 119.0
    bad = claims_of(world, tmp_path, (60.0, 121.0), (0, 50))
    assert not any(holds for holds, _ in bad.values())
    assert bad["sasrec, recall@10 on every seed"][1] == 0.0
    deep = claims_of(world, tmp_path, (60.0, 60.0), (0, 9))
    assert deep["sasrec, recall@10 on every seed"] == (True, 1.0)
    assert deep["sasrec, ndcg@10 on every seed"][1] == pytest.approx(0.2890648)  # 1 / log2(11)
