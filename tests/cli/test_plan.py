import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.pipeline.recipe import parse_recipe
from shortlist.simulate import embedded

QUICK = ["--minutes", "0.05"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan") / "data"
    save_dataset(embedded(0, "small"), folder, "test")
    return folder


def test_plan_prints_a_recipe_that_can_be_trained(data):
    shown = CliRunner().invoke(app, ["plan", "--data", str(data), *QUICK])
    assert shown.exit_code == 0, shown.output
    assert "popular" in parse_recipe(shown.stdout, "plan.toml").stages
    assert "# left out: " in shown.stdout


def test_plan_as_json_has_recipe_reasons_and_estimates(data):
    printed = json.loads(CliRunner().invoke(app, ["plan", "--data", str(data), *QUICK, "--json"]).stdout)
    assert {"recipe", "toml", "reasons", "left_out", "estimates", "profile", "minutes"} <= set(printed)


def test_train_without_a_recipe_prints_the_comparison_and_the_verdict(data, tmp_path):
    out = tmp_path / "bundle"
    shown = CliRunner().invoke(app, ["train", "--data", str(data), "--out", str(out), *QUICK, "--no-refit"])
    assert shown.exit_code == 0, shown.output
    assert "pipeline - model" in shown.stdout
    assert "is saved" in shown.stdout
    assert "left out tree" in shown.stdout
    recipe = CliRunner().invoke(app, ["recipe", "show", str(out)])
    assert parse_recipe(recipe.stdout, "recipe.toml").name == "auto"


def test_budget_beside_a_recipe_is_refused(data, tmp_path):
    arguments = ["train", "ease", "--data", str(data), "--out", str(tmp_path / "b"), "--minutes", "1"]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert "--minutes is the time budget of auto" in answer.stderr


def test_auto_is_no_shipped_recipe():
    answer = CliRunner().invoke(app, ["recipe", "show", "auto"])
    assert answer.exit_code == 2
    assert "shortlist plan --data DATA" in answer.stderr
