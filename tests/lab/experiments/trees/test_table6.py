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
from shortlist.lab.experiments.trees.table6 import BASELINES, MODELS, PAPER, TREE, _claims, dtr_table6
from shortlist.lab.experiments.trees.trial import METRICS, Trial
from shortlist.lab.render import result_drawing, result_page
from shortlist.lab.result import result_json
from tests.lab.experiments.results import check_result, ids
from tests.lab.experiments.training_calls import record_training

SYSTEMS = (TREE, "sasrec", *MODELS, "popularity")


@pytest.fixture
def result(cache_file):
    """Trained by the first test, and cached."""
    return dtr_table6(None, "quick", [0], cache_file=cache_file)


def test_every_model_has_rows_with_and_without_items_of_the_history(result):
    check_result(result, "dtr-table6")
    assert {(one.method, one.metric) for one in result.rows} == {
        (f"{name} on world", metric + kind)
        for name in SYSTEMS
        for metric in METRICS
        for kind in ("", ", seen kept")
    }
    assert ids(result) == {
        *(f"{TREE} >= {method} on world" for method in BASELINES),
        *(f"{method} > popularity on world" for method in (*BASELINES, "youtube-dnn")),
    }
    assert result.paper == {}


def test_the_result_has_a_page_and_a_drawing(result):
    page = result_page(result)
    assert all(f"| {name} on world | f1@20 |" in page for name in SYSTEMS)
    assert result_drawing(result).startswith("<svg")


def test_the_command_makes_the_same_table_from_the_cache_without_training(
    result, cache_file, tmp_path, request, monkeypatch
):
    request.getfixturevalue("no_training")
    called = record_training(monkeypatch)
    arguments = ["--runs", "1", "--cache", str(cache_file), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "dtr-table6", *arguments])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == result_json(result)["rows"]
    other = EXPERIMENTS["dtr-table6-mind"](None, "quick", [0], cache_file=cache_file)
    check_result(other, "dtr-table6-mind")
    assert called == []


def test_the_full_table_has_the_figures_of_the_paper(result, cache_file, data_setup, request, monkeypatch):
    request.getfixturevalue("no_training")
    monkeypatch.setattr(table6, "data_setups", lambda *_: [data_setup])
    for where in PAPER:
        assert dtr_table6(None, "full", [0], cache_file=cache_file, where=where).paper == PAPER[where]
        assert set(PAPER[where]) == {TREE, *BASELINES}


def test_answers_of_other_settings_are_refused(result, cache_file, monkeypatch):
    monkeypatch.setitem(table6.MODELS, "last-click", MODELS["last-click"].with_settings(backoff=3.0))
    with pytest.raises(
        ArtifactError, match=r"'world/last-click/0' was cached with other settings \(backoff 10.0, now"
    ):
        dtr_table6(None, "quick", [0], cache_file=cache_file)


def test_only_some_models_are_trained_and_no_claims_are_made(request, monkeypatch):
    request.getfixturevalue("no_training")
    called = record_training(monkeypatch)
    result = dtr_table6(None, "quick", [0, 1], only=["last-click", "popular in window"])
    assert called == ["LastClickTrainer", "PopularWindowTrainer"] * 2
    assert {one.method for one in result.rows} == {"last-click on world", "popular in window on world"}
    assert result.claims == ()


def test_the_popularity_window_depends_on_the_clock_of_the_log(data_setup, monkeypatch):
    """A log with only the order of its events has no days."""
    trainers = []
    monkeypatch.setattr(Trial, "model", lambda self, name, trainer: trainers.append(trainer.window))
    for clock in ("ms", "order"):
        trial = Trial(replace(data_setup, dataset=replace(data_setup.dataset, clock=clock)), 0)
        table6._scores(trial, "popular in window")
    assert trainers == ["days", "share"]


def test_models_are_trained_on_the_device_of_the_trial(data_setup, monkeypatch):
    trainers = {}
    monkeypatch.setattr(Trial, "model", lambda self, name, trainer: trainers.update({name: trainer}))
    for name in MODELS:
        table6._scores(Trial(replace(data_setup, quick=False), 0, device="cpu"), name)
    assert {one.device for one in trainers.values() if hasattr(one, "device")} == {"cpu"}
    assert trainers["gru4rec"] == MODELS["gru4rec"].with_settings(device="cpu")
    assert trainers["last-click"] == MODELS["last-click"]


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(
        ConfigError, match="dtr-table6: the full profile needs --data, a folder that holds ml-1m"
    ):
        dtr_table6(None, "full")


def synthetic_scores(level):
    """F1@20 of users around a level."""
    spread = torch.linspace(-0.05, 0.05, 200).double()
    return [{"": Scores({"f1@20": level + spread.roll(seed)}, {})} for seed in range(2)]


@pytest.mark.parametrize(
    ("tree", "baselines", "popular", "tree_holds", "baselines_hold"),
    [
        (0.3, 0.2, 0.1, True, True),
        (0.1, 0.2, 0.1, False, True),
        (0.2, 0.2, 0.2, True, False),
        (0.1, 0.1, 0.3, True, False),
    ],
)
def test_scores_decide_the_claims(tree, baselines, popular, tree_holds, baselines_hold):
    """The tree must not be clearly below, the models must be clearly above."""
    found = {name: synthetic_scores(baselines) for name in SYSTEMS} | {
        TREE: synthetic_scores(tree),
        "popularity": synthetic_scores(popular),
    }
    for one in _claims(found, "here"):
        if one.id.startswith(TREE):
            assert one.holds is tree_holds
            assert one.estimate == pytest.approx(tree - baselines)
        else:
            assert one.holds is baselines_hold
            assert one.estimate == pytest.approx(baselines - popular)
