"""shortlist recipe: show and list."""

import json
import re
import tomllib

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.pipeline import find_recipe, to_toml
from shortlist.pipeline.shipped import FOLDER, shipped_names


def run(*arguments: object):
    return CliRunner().invoke(app, ["recipe", *map(str, arguments)], env={"COLUMNS": "200"})


def test_list_has_every_shipped_recipe_with_what_it_is():
    answer = run("list")
    assert answer.exit_code == 0
    assert all(name in answer.stdout for name in shipped_names())
    assert "SASRec: a causal transformer" in answer.stdout
    listed = json.loads(run("list", "--json").stdout)["recipes"]
    assert {one["name"] for one in listed} == set(shipped_names())
    assert all(one["about"] for one in listed)


def test_shipped_recipe_is_shown_as_its_file():
    assert run("show", "classic").stdout == (FOLDER / "classic.toml").read_text("utf-8")


def test_changed_recipe_is_shown_as_toml_that_can_be_read(tmp_path):
    answer = run("show", "sasrec", "--set", "stages.sasrec.train.epochs=20", "--set", "name=mine")
    assert answer.exit_code == 0
    assert tomllib.loads(answer.stdout)["stages"]["sasrec"]["train"]["epochs"] == 20
    path = tmp_path / "mine.toml"
    path.write_text(answer.stdout)
    assert to_toml(find_recipe(path)) == answer.stdout
    assert json.loads(run("show", path, "--json").stdout)["toml"] == answer.stdout


def test_recipe_of_a_bundle_is_the_one_it_was_trained_from(bundle, recipe):
    assert run("show", bundle).stdout == to_toml(recipe)


def test_name_of_a_shipped_recipe_is_not_a_bundle_unless_written_as_a_path(
    bundle, recipe, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classic").symlink_to(bundle)
    assert run("show", "classic").stdout == (FOLDER / "classic.toml").read_text("utf-8")
    assert run("show", "./classic").stdout == to_toml(recipe)


def test_pipeline_of_several_lines_is_shown_on_several_lines():
    shown = run("show", "classic", "--set", "name=mine").stdout
    assert "\\u000a" not in shown
    expression = find_recipe("classic").expression
    assert "\n" in expression
    assert tomllib.loads(shown)["pipeline"] == expression


REFUSALS = {
    "an unknown name": (
        ["sasrek"],
        "recipe 'sasrek': expected a TOML file or one of .*; did you mean sasrec",
    ),
    "a file that does not exist": (["gone.toml"], "gone.toml: no such file; .* `shortlist recipe list`"),
    "a folder that is no bundle": (["."], "manifest.json: not found"),
    "an unknown training setting": (
        ["sasrec", "--set", "stages.sasrec.train.epoch=2"],
        r"\[stages.sasrec.train\]: unknown key 'epoch'; .*did you mean epochs\?",
    ),
    "an unknown setting of the training": (["classic", "--set", "train.reqests=2"], "did you mean requests"),
    "no value": (["classic", "--set", "name"], "--set: expected KEY=VALUE"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_wrong_argument_is_refused_with_what_to_type(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run("show", *arguments)
    assert answer.exit_code == 2
    assert re.search(message, answer.stderr), answer.stderr
