import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shortlist.artifact.store import load
from shortlist.cli import app
from shortlist.errors import ShortlistError
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.tree.training import TreeTraining
from tests.conftest import TINY

FAST = TINY.replace("epochs = 3", "epochs = 1").replace("epochs = 8", "epochs = 1")


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(FAST)
    return path


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_bundle_records_data_seed_and_split(recipe_file, data_folder, tmp_path, world):
    out = tmp_path / "bundle"
    answer = run("train", recipe_file, "--data", data_folder, "--out", out, "--seed", 3, "--json")
    assert answer.exit_code == 0, answer.output
    printed = json.loads(answer.stdout)
    artifact = load(out)
    assert printed["about"]["version"] == artifact.version
    assert artifact.lineage.data == world.fingerprint
    assert artifact.lineage.seed == 3
    assert artifact.lineage.config["split"]["protocol"] == "half-history"
    assert "tiny" in artifact.text("README.md")


@pytest.mark.parametrize("protocol", ["global-time", "leave-last-out"])
def test_protocol_is_recorded_in_the_bundle_and_used_by_evaluate(
    recipe_file, data_folder, tmp_path, protocol
):
    out = tmp_path / "bundle"
    answer = run("train", recipe_file, "--data", data_folder, "--out", out, "--protocol", protocol, "--json")
    assert answer.exit_code == 0, answer.output
    about = json.loads(answer.stdout)["about"]
    assert about["split"]["protocol"] == protocol
    assert load(out).about["split"] == load(out).lineage.config["split"] == about["split"]
    assert about["training"]["towers"]["max_epochs"] == 1
    evaluated = json.loads(run("evaluate", out, "--data", data_folder, "--json").stdout)
    assert evaluated["protocol"]["split"].startswith(protocol)


def test_unknown_protocol_is_refused(recipe_file, data_folder, tmp_path):
    options = ("--data", data_folder, "--out", tmp_path / "out", "--protocol", "by-moon")
    answer = run("train", recipe_file, *options)
    assert answer.exit_code == 2
    assert "half-history, global-time, leave-last-out, got 'by-moon'" in " ".join(answer.stderr.split())


def test_training_that_did_not_converge_is_reported(recipe_file, data_folder, tmp_path):
    answer = run("train", recipe_file, "--data", data_folder, "--out", tmp_path / "my bundle")
    assert "towers: the best epoch was the last one" in answer.stdout
    assert f"next: shortlist evaluate '{tmp_path / 'my bundle'}' --data " in answer.stdout
    assert "Measured under half-history (" in answer.stdout


def test_existing_bundle_is_replaced_only_with_force(recipe_file, data_folder, tmp_path):
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
        (lambda text: text + "\n[stages.extra]\ntype = 'recent'\n", "is not used in the pipeline"),
        (lambda text: "name = [", "is not TOML"),
    ],
)
def test_invalid_recipe_is_refused_and_nothing_is_written(
    recipe_file, data_folder, tmp_path, damage, message
):
    recipe_file.write_text(damage(FAST))
    answer = run("train", recipe_file, "--data", data_folder, "--out", tmp_path / "out")
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert "tiny.toml" in answer.stderr
    assert answer.stdout == ""
    assert not (tmp_path / "out").exists()


def test_missing_files_are_named_in_the_error(recipe_file, tmp_path):
    gone = run("train", tmp_path / "gone.toml", "--data", tmp_path, "--out", tmp_path / "out")
    assert gone.exit_code == 2
    assert "gone.toml: no such file" in gone.stderr
    nothing = run("train", recipe_file, "--data", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert nothing.exit_code == 2
    assert "manifest.json: not found" in nothing.stderr


def test_ctrl_c_leaves_no_partial_files(recipe_file, data_folder, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shortlist.train.bundle.train_pipeline", interrupted)
    answer = run("train", recipe_file, "--data", data_folder, "--out", tmp_path / "out")
    assert answer.exit_code == 130
    assert "no partial file was left" in answer.stderr
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
def test_interrupted_training_resumes_to_the_same_bundle(data_folder, tmp_path, monkeypatch, method):
    recipe = tmp_path / "small-tree.toml"
    recipe.write_text(SMALL_TREE.format(method=method))
    monkeypatch.setattr("shortlist.train.tree.trainer.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("shortlist.train.tree.trainer.SequenceTrainer", partial(SequenceTrainer, epochs=1))
    command = ("train", recipe, "--data", data_folder)
    assert run(*command, "--out", tmp_path / "whole").exit_code == 0

    steps, one_step = [], TreeTraining._one_step

    def until_interrupted(self):
        if len(steps) == 5:
            raise ShortlistError("the power went out")
        steps.append(self.state.step)
        one_step(self)

    monkeypatch.setattr(TreeTraining, "_one_step", until_interrupted)
    resumed = (*command, "--out", tmp_path / "resumed", "--checkpoint-dir", tmp_path / "checkpoints")
    assert "the power went out" in run(*resumed).stderr
    assert steps == [0, 1, 2, 3, 4]
    assert not (tmp_path / "resumed").exists()
    monkeypatch.setattr(
        TreeTraining, "_one_step", lambda self: steps.append(self.state.step) or one_step(self)
    )
    assert run(*resumed).exit_code == 0
    assert steps[5] == 5  # resumed from the checkpoint after five steps
    assert load(tmp_path / "resumed").version == load(tmp_path / "whole").version

    monkeypatch.setattr(TreeTraining, "_one_step", lambda self: pytest.fail("trained again"))
    monkeypatch.setattr(SequenceTrainer, "learn", lambda *_: pytest.fail("trained again"))
    assert run(*resumed, "--force").exit_code == 0
    assert load(tmp_path / "resumed").version == load(tmp_path / "whole").version


def test_checkpoint_dir_must_be_a_folder(recipe_file, data_folder, tmp_path):
    (tmp_path / "file").write_text("mine")
    options = ("--out", tmp_path / "out", "--checkpoint-dir", tmp_path / "file")
    answer = run("train", recipe_file, "--data", data_folder, *options)
    assert answer.exit_code == 2
    assert "is not a folder; expected a folder for checkpoints" in " ".join(answer.stderr.split())
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_checkpoint_dir_must_lie_outside_the_bundle(recipe_file, data_folder, tmp_path):
    out = tmp_path / "out"
    for folder in (out, out / "checkpoints"):
        answer = run("train", recipe_file, "--data", data_folder, "--out", out, "--checkpoint-dir", folder)
        assert answer.exit_code == 2
        assert "choose a folder outside of it" in " ".join(answer.stderr.split())
    assert not out.exists()


def test_other_settings_have_other_checkpoints_and_damage_is_reported(data_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("shortlist.train.tree.trainer.SequenceTrainer", partial(SequenceTrainer, epochs=1))
    recipe, folder = tmp_path / "small-tree.toml", tmp_path / "checkpoints"
    recipe.write_text(SMALL_TREE.format(method="dtr-t-rl"))
    options = ("--checkpoint-dir", folder, "--force", "--out", tmp_path / "out", "--no-refit")
    command = ("train", recipe, "--data", data_folder, *options)
    assert run(*command).exit_code == 0
    first = {one.name for one in folder.iterdir()}
    assert sorted(name.split("-")[0] for name in first) == ["sasrec", "stage", "tree"]
    recipe.write_text(SMALL_TREE.format(method="dtr-t-rl").replace("width = 8", "width = 6", 1))
    assert run(*command).exit_code == 0
    assert (
        len({one.name for one in folder.iterdir()} - first) == 2
    )  # another tree and its stage, the same estimator
    assert run(*command, "--seed", 1).exit_code == 0
    assert len({one.name for one in folder.iterdir()}) == 8
    for kind, message in (("stage", "and the stage is fitted again"), ("sasrec", "and it is trained again")):
        for weights in folder.glob(f"{kind}-*/*.safetensors"):
            weights.write_bytes(weights.read_bytes()[:-1])
        answer = run(*command)
        assert answer.exit_code == 2
        assert message in " ".join(answer.stderr.split())
        for damaged in folder.glob(f"{kind}-*"):
            shutil.rmtree(damaged)
    assert run(*command).exit_code == 0
