import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.errors import ArtifactError, ConfigError
from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.trees import table6
from shortlist.lab.experiments.trees.trial import METRICS, Trial
from shortlist.lab.experiments.trees.table6 import MODELS, PAPER, RIVALS, TREE, _claims, dtr_table6
from shortlist.lab.render import result_drawing, result_page
from tests.lab.experiments.shapes import check_shape, ids
from tests.lab.experiments.watching import watch_lessons

EVERYBODY = (TREE, "sasrec", *MODELS, "popularity")


@pytest.fixture
def told(cache_file):
    """Learned by the first test that asks, and kept."""
    return dtr_table6(None, "quick", [0], cache_file=cache_file)


def test_every_model_stands_in_the_table_with_and_without_what_was_seen(told):
    check_shape(told, "dtr-table6")
    assert {(one["method"], one["metric"]) for one in told["rows"]} == {
        (f"{name} on world", metric + kind)
        for name in EVERYBODY
        for metric in METRICS
        for kind in ("", ", seen kept")
    }
    assert ids(told) == {
        *(f"{TREE} >= {who} on world" for who in RIVALS),
        *(f"{who} > popularity on world" for who in (*RIVALS, "youtube-dnn")),
    }
    assert "paper" not in told


def test_page_and_drawing_can_be_made_of_it(told):
    page = result_page(told)
    assert all(f"| {name} on world | f1@20 |" in page for name in EVERYBODY)
    assert result_drawing(told).startswith("<svg")


def test_kept_answers_make_the_same_table_by_the_command_without_training(
    told, cache_file, tmp_path, request, monkeypatch
):
    request.getfixturevalue("untaught")
    taught = watch_lessons(monkeypatch)
    asked = ["--runs", "1", "--keep", str(cache_file), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "dtr-table6", *asked])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == told["rows"]
    other = EXPERIMENTS["dtr-table6-mind"](None, "quick", [0], cache_file=cache_file)
    check_shape(other, "dtr-table6-mind")
    assert taught == []


def test_the_full_table_has_what_the_paper_says_beside_it(told, cache_file, ground, request, monkeypatch):
    request.getfixturevalue("untaught")
    monkeypatch.setattr(table6, "grounds_of", lambda *_: [ground])
    for where in PAPER:
        assert dtr_table6(None, "full", [0], cache_file=cache_file, where=where)["paper"] == PAPER[where]
        assert set(PAPER[where]) == {TREE, *RIVALS}


def test_answers_of_other_settings_are_refused(told, cache_file, monkeypatch):
    monkeypatch.setitem(table6.MODELS, "last-click", replace(MODELS["last-click"], backoff=3.0))
    with pytest.raises(
        ArtifactError, match=r"'world/last-click/0' was kept with other settings \(backoff 10.0, now"
    ):
        dtr_table6(None, "quick", [0], cache_file=cache_file)


def test_only_some_train_only_those_and_claim_nothing(request, monkeypatch):
    request.getfixturevalue("untaught")
    taught = watch_lessons(monkeypatch)
    told = dtr_table6(None, "quick", [0, 1], only=["last-click", "popular in window"])
    assert taught == ["LastClickTrainer", "PopularWindowTrainer"] * 2
    assert {one["method"] for one in told["rows"]} == {"last-click on world", "popular in window on world"}
    assert told["claims"] == []


def test_the_window_of_popularity_is_that_of_the_logs_clock(ground, monkeypatch):
    """A log that knows only the order of its events has no days."""
    asked = []
    monkeypatch.setattr(Trial, "model", lambda self, name, trainer: asked.append(trainer.by))
    for clock in ("ms", "order"):
        trial = Trial(replace(ground, dataset=replace(ground.dataset, clock=clock)), 0)
        table6._answered(trial, "popular in window")
    assert asked == ["days", "share"]


def test_a_trial_says_where_models_learn(ground, monkeypatch):
    asked = {}
    monkeypatch.setattr(Trial, "model", lambda self, name, trainer: asked.update({name: trainer}))
    for name in MODELS:
        table6._answered(Trial(replace(ground, quick=False), 0, device="cpu"), name)
    assert {one.device for one in asked.values() if hasattr(one, "device")} == {"cpu"}
    assert asked["gru4rec"] == replace(MODELS["gru4rec"], device="cpu")
    assert asked["last-click"] == MODELS["last-click"]


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(
        ConfigError, match="dtr-table6: the full profile needs --data, a folder that holds ml-1m"
    ):
        dtr_table6(None, "full")


def made_up(level):
    """Everybody's f1@20 around a level."""
    spread = torch.linspace(-0.05, 0.05, 200).double()
    return [{"": Scores({"f1@20": level + spread.roll(seed)}, {})} for seed in range(2)]


@pytest.mark.parametrize(
    ("tree", "rivals", "popular", "tree_holds", "rivals_hold"),
    [
        (0.3, 0.2, 0.1, True, True),
        (0.1, 0.2, 0.1, False, True),
        (0.2, 0.2, 0.2, True, False),
        (0.1, 0.1, 0.3, True, False),
    ],
)
def test_the_answers_decide_the_claims(tree, rivals, popular, tree_holds, rivals_hold):
    """The tree must not be clearly below, the models must be clearly above."""
    found = {name: made_up(rivals) for name in EVERYBODY} | {
        TREE: made_up(tree),
        "popularity": made_up(popular),
    }
    for one in _claims(found, "here"):
        if one["id"].startswith(TREE):
            assert one["holds"] is tree_holds
            assert one["estimate"] == pytest.approx(tree - rivals)
        else:
            assert one["holds"] is rivals_hold
            assert one["estimate"] == pytest.approx(rivals - popular)
