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
from shortlist.lab.experiments.models.trials import DEEP
from shortlist.lab.render import result_drawing, result_page
from tests.lab.experiments.shapes import check_shape, ids, points
from tests.lab.experiments.watching import watch_lessons

CURVE = "ndcg@10 of validation events"


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return tmp_path_factory.mktemp("timed") / "answers"


@pytest.fixture(scope="module")
def told(answers):
    return sasrec_time(None, "quick", [0, 1], cache_file=answers)


def test_quality_is_told_over_seconds_of_every_seed(told):
    check_shape(told, "sasrec-time")
    (seconds,) = [one["values"] for one in told["rows"] if one["metric"] == "training seconds"]
    for seed in (0, 1):
        curve = points(told, f"sasrec, seed {seed}", CURVE)
        assert len(curve) == 2
        assert 0 < min(curve) < max(curve) <= seconds[seed]
    assert told["x"] == "seconds of training"
    assert ids(told) == {
        "sasrec, recall@10 on every seed",
        "sasrec, ndcg@10 on every seed",
        "seconds of training, the longest",
    }


def test_page_and_drawing_can_be_made_of_it(told):
    assert f"| sasrec, seed 0 | {CURVE} at " in result_page(told)
    assert "seconds of training" in result_drawing(told)


def test_kept_answers_make_the_same_table_by_the_command_without_training(
    told, answers, tmp_path, monkeypatch
):
    taught = watch_lessons(monkeypatch)
    asked = ["--runs", "2", "--keep", str(answers), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "sasrec-time", *asked])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == told["rows"]
    assert taught == []


def test_answers_of_other_settings_are_refused(told, answers, monkeypatch):
    monkeypatch.setattr(
        sys.modules["shortlist.lab.experiments.models.sasrec_time"], "quick", lambda trainer: SASREC
    )
    with pytest.raises(ArtifactError, match=f"'world/{ALONE}/0' was kept with other settings"):
        sasrec_time(None, "quick", [0], cache_file=answers)


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(ConfigError, match="sasrec-time: the full profile needs --data"):
        sasrec_time(None, "full")


def claimed(world, tmp_path, seconds, places):
    """What is claimed of answers that have what came at these places, one for every seed."""
    path = tmp_path / f"{seconds}{places}"
    test = world.split(protocol="leave-last-out").test
    for seed, (place, took) in enumerate(zip(places, seconds, strict=True)):
        items = torch.full((len(test), DEEP), -1, dtype=torch.int32)
        items[:, place] = test.relevant()[:, 0]
        facts = {"seconds": took, "judged": [[took / 2, 0.1], [took, 0.2]]}
        AnswerCache.open(path).get(f"world/{ALONE}/{seed}", lambda items=items, facts=facts: (items, facts))
    told = sasrec_time(None, "quick", range(len(places)), cache_file=path)
    return {one["id"]: (one["holds"], one["estimate"]) for one in told["claims"]}


def test_the_worst_seed_decides_every_claim(world, tmp_path):
    good = claimed(world, tmp_path, (60.0, 119.0), (0, 0))
    assert all(holds for holds, _ in good.values())
    assert good["seconds of training, the longest"][1] == 119.0
    bad = claimed(world, tmp_path, (60.0, 121.0), (0, 50))
    assert not any(holds for holds, _ in bad.values())
    assert bad["sasrec, recall@10 on every seed"][1] == 0.0
    deep = claimed(world, tmp_path, (60.0, 60.0), (0, 9))
    assert deep["sasrec, recall@10 on every seed"] == (True, 1.0)
    assert deep["sasrec, ndcg@10 on every seed"][1] == pytest.approx(0.2890648)  # 1 / log2(11)
