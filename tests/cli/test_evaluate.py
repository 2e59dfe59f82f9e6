import json

import pytest
import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.cli.evaluate import typical_case
from shortlist.data import save_dataset
from shortlist.simulate import embedded


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_the_answer_has_metrics_with_intervals_stages_and_a_report(bundle, data_folder, tmp_path):
    page = tmp_path / "deep" / "report.html"
    answer = run("evaluate", bundle, "--data", data_folder, "--report", page, "--json")
    assert answer.exit_code == 0, answer.stderr
    told = json.loads(answer.stdout)
    ours = told["metrics"]["pipeline"]["metrics"]["recall@20"]
    assert ours["low"] <= ours["mean"] <= ours["high"]
    assert told["difference"]["recall@20"]["low"] > 0
    assert told["report"] == str(page)
    assert page.read_text().startswith("<!doctype html>")
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_people_get_tables(bundle, data_folder):
    answer = run("evaluate", bundle, "--data", data_folder, "--on", "valid")
    assert answer.exit_code == 0
    assert "which stage lost what" in answer.stdout
    said = " ".join(answer.stdout.split())
    assert "the best yardstick: " in said
    for rule in ("protocol: half-history: ", "seed 0", "ties: ", "duplicates: ", "seen items: left out"):
        assert rule in said


def test_other_data_and_other_words_are_refused(bundle, tmp_path, data_folder):
    save_dataset(embedded(seed=5, size="small"), tmp_path / "other", "test")
    other = run("evaluate", bundle, "--data", tmp_path / "other")
    assert other.exit_code == 2
    assert "was trained on other data" in other.stderr
    word = run("evaluate", bundle, "--data", data_folder, "--on", "everything")
    assert word.exit_code == 2
    assert "test or valid" in word.stderr


@pytest.mark.parametrize(
    ("recall", "expected"), [([0.0, 0.1, 0.9, 0.5], 3), ([0.0, 0.0], 0), ([float("nan"), 0.2], 1)]
)
def test_the_worked_example_is_neither_the_best_nor_a_failure(recall, expected):
    assert typical_case(torch.tensor(recall)) == expected


def test_a_pipeline_that_answers_nobody_is_still_reported(data_folder, tmp_path, world):
    top = world.items.id(int(world.split().train.popularity.argmax()))
    (tmp_path / "empty.toml").write_text(
        'pipeline = "popular % 1 >> available % 20"\n[stages.popular]\ntype = "popular"\n'
        f'[stages.available]\ntype = "available"\n[stages.available.train]\ndeny = ["{top}"]\n'
    )
    run("train", tmp_path / "empty.toml", "--data", data_folder, "--out", tmp_path / "bundle")
    answer = run("evaluate", tmp_path / "bundle", "--data", data_folder, "--report", tmp_path / "r.html")
    assert answer.exit_code == 0, answer.output
    assert (tmp_path / "r.html").is_file()
