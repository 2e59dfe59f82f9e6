import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.artifact import load
from shortlist.cli import app
from tests.conftest import TINY

FAST = TINY.replace("epochs = 3", "epochs = 1").replace("epochs = 8", "epochs = 1")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(FAST)
    return path


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_a_bundle_says_where_it_comes_from(recipe_file, data_folder, tmp_path, world):
    out = tmp_path / "bundle"
    answer = run("train", recipe_file, "--data", data_folder, "--out", out, "--seed", 3, "--json")
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    artifact = load(out)
    assert told["version"] == artifact.version
    assert artifact.lineage.data == world.fingerprint
    assert artifact.lineage.seed == 3
    assert artifact.lineage.config["split"]["protocol"] == "half-history"
    assert "tiny" in artifact.text("README.md")


def test_an_existing_bundle_is_replaced_only_by_force(recipe_file, data_folder, tmp_path):
    out = tmp_path / "bundle"
    assert run("train", recipe_file, "--data", data_folder, "--out", out).exit_code == 0
    before = load(out).version
    refused = run("train", recipe_file, "--data", data_folder, "--out", out, "--seed", 1)
    assert refused.exit_code == 2
    assert "already holds an artifact" in refused.stderr
    assert load(out).version == before
    assert (
        run("train", recipe_file, "--data", data_folder, "--out", out, "--seed", 1, "--force").exit_code == 0
    )
    assert load(out).version != before


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace("strength", "strenght"), "unknown key 'strenght'"),
        (lambda text: text.replace('type = "seen"', 'type = "sen"'), "unknown type 'sen'"),
        (lambda text: text.replace("epochs = 1", 'epochs = "many"', 1), "epochs must be a whole number"),
        (lambda text: text + "\n[stages.extra]\ntype = 'recent'\n", "does not stand in the pipeline"),
        (lambda text: "name = [", "is not TOML"),
    ],
)
def test_a_recipe_that_is_not_understood_is_refused_and_nothing_is_written(
    recipe_file, data_folder, tmp_path, damage, message
):
    recipe_file.write_text(damage(FAST))
    answer = run("train", recipe_file, "--data", data_folder, "--out", tmp_path / "out")
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert "tiny.toml" in answer.stderr
    assert answer.stdout == ""
    assert not (tmp_path / "out").exists()


def test_missing_files_are_named(recipe_file, tmp_path):
    gone = run("train", tmp_path / "gone.toml", "--data", tmp_path, "--out", tmp_path / "out")
    assert gone.exit_code == 2
    assert "gone.toml: no such file" in gone.stderr
    nothing = run("train", recipe_file, "--data", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert nothing.exit_code == 2
    assert "manifest.json: not found" in nothing.stderr


def test_ctrl_c_leaves_nothing_behind(recipe_file, data_folder, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["shortlist.cli.train"], "fit", interrupted)
    answer = run("train", recipe_file, "--data", data_folder, "--out", tmp_path / "out")
    assert answer.exit_code == 1
    assert "nothing half-written was left" in answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.toml"]
