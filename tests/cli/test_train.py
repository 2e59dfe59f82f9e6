import json
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.artifact.store import load
from shortlist.cli import app
from shortlist.errors import ShortlistError
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.tree.rounds import TreeTraining
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


@pytest.mark.parametrize("protocol", ["global-time", "leave-last-out"])
def test_another_protocol_stands_in_the_bundle_and_is_evaluated_by(
    recipe_file, data_folder, tmp_path, protocol
):
    out = tmp_path / "bundle"
    asked = ("--data", data_folder, "--out", out, "--protocol", protocol, "--json")
    answer = run("train", recipe_file, *asked)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert told["split"]["protocol"] == protocol
    assert load(out).about["split"] == load(out).lineage.config["split"] == told["split"]
    assert told["training"]["towers"]["most"] == 1
    evaluated = json.loads(run("evaluate", out, "--data", data_folder, "--json").stdout)
    assert evaluated["protocol"]["protocol"].startswith(protocol)


def test_a_protocol_that_does_not_exist_is_refused(recipe_file, data_folder, tmp_path):
    asked = ("--data", data_folder, "--out", tmp_path / "out", "--protocol", "by-moon")
    answer = run("train", recipe_file, *asked)
    assert answer.exit_code == 2
    assert "half-history, global-time, leave-last-out, got 'by-moon'" in " ".join(answer.stderr.split())


def test_a_training_that_ended_too_early_is_told_of(recipe_file, data_folder, tmp_path):
    answer = run("train", recipe_file, "--data", data_folder, "--out", tmp_path / "out")
    assert "towers: was best at the end of its training" in answer.stdout
    assert "held out by half-history (" in answer.stdout


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


SMALL_TREE = """
name = "small-tree"
pipeline = "tree % 50 >> seen % 10"

[stages.tree]
type = "tree"

[stages.tree.train]
method = "{method}"
epochs = 2
rounds = 2
batch_size = 128
scorer = "mlp"
negatives = 5
width = 8
layers = [8]
windows = [3, 2, 1]
sasrec_width = 8
min_history = 3

[stages.seen]
type = "seen"
"""


@pytest.mark.parametrize("method", ["dtr-t-rl", "otm"])
def test_a_training_that_was_cut_short_goes_on_to_the_same_bundle(data_folder, tmp_path, monkeypatch, method):
    recipe = tmp_path / "small-tree.toml"
    recipe.write_text(SMALL_TREE.format(method=method))
    monkeypatch.setattr("shortlist.train.tree.trainer.KEEP_SECONDS", 0.0)
    monkeypatch.setattr("shortlist.train.tree.trainer.SASRecTrainer", partial(SASRecTrainer, epochs=1))
    asked = ("train", recipe, "--data", data_folder)
    assert run(*asked, "--out", tmp_path / "whole").exit_code == 0

    steps, one_step = [], TreeTraining._one_step

    def until_cut(self):
        if len(steps) == 5:
            raise ShortlistError("the power went out")
        steps.append(self.standing.step)
        one_step(self)

    monkeypatch.setattr(TreeTraining, "_one_step", until_cut)
    kept = (*asked, "--out", tmp_path / "parted", "--keep", tmp_path / "kept")
    assert "the power went out" in run(*kept).stderr
    assert steps == [0, 1, 2, 3, 4]
    assert not (tmp_path / "parted").exists()
    monkeypatch.setattr(
        TreeTraining, "_one_step", lambda self: steps.append(self.standing.step) or one_step(self)
    )
    assert run(*kept).exit_code == 0
    assert steps[5] == 5  # it went on from what was kept after five steps
    assert load(tmp_path / "parted").version == load(tmp_path / "whole").version

    monkeypatch.setattr(TreeTraining, "_one_step", lambda self: pytest.fail("all is kept already"))
    monkeypatch.setattr(SASRecTrainer, "fit", lambda *_: pytest.fail("kept too"))
    assert run(*kept, "--force").exit_code == 0
    assert load(tmp_path / "parted").version == load(tmp_path / "whole").version


def test_a_file_is_no_folder_to_keep_trainings_in(recipe_file, data_folder, tmp_path):
    (tmp_path / "kept").write_text("mine")
    answer = run(
        "train", recipe_file, "--data", data_folder, "--out", tmp_path / "out", "--keep", tmp_path / "kept"
    )
    assert answer.exit_code == 2
    assert "is no folder; expected one to keep trainings in" in " ".join(answer.stderr.split())
    assert (tmp_path / "kept").read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_trainings_are_not_kept_where_the_bundle_goes(recipe_file, data_folder, tmp_path):
    out = tmp_path / "out"
    for keep in (out, out / "kept"):
        answer = run("train", recipe_file, "--data", data_folder, "--out", out, "--keep", keep)
        assert answer.exit_code == 2
        assert "keep trainings in another folder" in " ".join(answer.stderr.split())
    assert not out.exists()


def test_other_trainings_are_kept_elsewhere_and_damage_is_told(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.train.tree.trainer.SASRecTrainer", partial(SASRecTrainer, epochs=1))
    recipe, kept = tmp_path / "small-tree.toml", tmp_path / "kept"
    recipe.write_text(SMALL_TREE.format(method="dtr-t-rl"))
    asked = ("train", recipe, "--data", data_folder, "--keep", kept, "--force", "--out", tmp_path / "out")
    assert run(*asked).exit_code == 0
    first = {one.name for one in kept.iterdir()}
    assert sorted(name.split("-")[0] for name in first) == ["sasrec", "tree"]
    recipe.write_text(SMALL_TREE.format(method="dtr-t-rl").replace("width = 8", "width = 6", 1))
    assert run(*asked).exit_code == 0
    assert len({one.name for one in kept.iterdir()} - first) == 1  # another tree, the same estimator
    assert run(*asked, "--seed", 1).exit_code == 0
    assert len({one.name for one in kept.iterdir()}) == 5
    (weights,) = [
        one / "weights.safetensors" for one in kept.iterdir() if one.name in first and "sasrec" in one.name
    ]
    weights.write_bytes(weights.read_bytes()[:-1])
    answer = run(*asked)
    assert answer.exit_code == 2
    assert "and it is trained again" in " ".join(answer.stderr.split())
