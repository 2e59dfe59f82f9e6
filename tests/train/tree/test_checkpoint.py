import dataclasses
import json

import pytest
import torch

from shortlist.artifact import staging
from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError
from shortlist.train.tree import optimizer
from shortlist.train.tree.checkpoint import FACTS, KIND, TENSORS, has_checkpoint
from shortlist.train.tree.training import TreeTraining
from tests.train.tree.small import (
    cyclic_events,
    everything,
    next_item_scores,
    plan,
    same,
    training,
    training_set,
)

RUNS = {
    "dtr-u, dropout, restart": {"method": "dtr-u", "dropout": 0.3, "restart": True},
    "dtr-t": {"method": "dtr-t"},
    "dtr-t-rl, dropout": {"method": "dtr-t-rl", "dropout": 0.2},
    "jtm": {"method": "jtm"},
    "tdm": {"method": "tdm", "rounds": 3},
    "otm, dropout": {"method": "otm", "dropout": 0.2},
    "plt": {"method": "plt", "branch": 4},
    "din": {"method": "din"},
    "paper": {"method": "dtr-t-rl", "profile": "paper"},
    "released": {"method": "dtr-t-rl", "profile": "released"},
}


@pytest.mark.parametrize("given", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("stops", [(3,), (5,), (2, 7)], ids=["within a round", "at an update", "twice"])
def test_t27_resumed_training_gives_the_bytes_of_uninterrupted_training(given, stops, tmp_path):
    whole = training(**given)
    whole.run()
    for stop in stops:
        training(**given, folder=tmp_path / "saved").run(until=stop)
    resumed = training(**given, folder=tmp_path / "saved")
    assert resumed.state.step == stops[-1]
    resumed.run()
    assert same(everything(resumed), everything(whole))
    assert resumed.state.log == whole.state.log
    assert resumed.state.updates == whole.state.updates


def test_t27_training_with_sparse_updates_resumes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(optimizer, "SPARSE_ROWS", 10)
    whole = training()
    whole.run()
    assert len(whole.state.optimizer.parts) == 2
    training(folder=tmp_path / "saved").run(until=4)
    resumed = training(folder=tmp_path / "saved")
    resumed.run()
    assert same(everything(resumed), everything(whole))


def test_checkpoints_do_not_change_training(tmp_path):
    one, two = training(), training(folder=tmp_path / "saved", checkpoint_every=1)
    one.run()
    two.run()
    assert same(everything(one), everything(two))


def test_resuming_a_finished_training_changes_nothing(tmp_path):
    first = training(folder=tmp_path / "saved")
    first.run()
    second = training(folder=tmp_path / "saved")
    second.run()
    assert same(everything(first), everything(second))


def test_checkpoints_are_written_every_n_steps_and_at_the_end(tmp_path, monkeypatch):
    steps = []
    monkeypatch.setattr(
        "shortlist.train.tree.training.save_checkpoint", lambda folder, state, run: steps.append(state.step)
    )
    training(folder=tmp_path, checkpoint_every=4).run()
    training(folder=tmp_path).run(until=7)
    assert steps == [4, 8, 10, 5, 7]


def test_a_checkpoint_holds_tensors_and_json_with_the_step(tmp_path):
    training(folder=tmp_path / "saved").run(until=7)
    saved = load(tmp_path / "saved", KIND)
    assert saved.about == {"step": 7, "updates": 1}
    assert sorted(saved.manifest["files"]) == [FACTS, TENSORS]
    assert saved.lineage.data == training_set().events.fingerprint


OTHERS = {
    "plan.learning_rate is 0.01 there, 0.02 here": {"learning_rate": 0.02},
    "plan.sampler is 'tree' there, 'uniform' here": {"method": "dtr-u"},
    "plan.layers": {"layers": (6, 6)},
    "seed is 0 there, 3 here": {"seed": 3},
    "data.events": {"data": training_set(events=cyclic_events(seed=1))},
    "data.categories": {"data": training_set(categories=torch.arange(40) // 8)},
    "data.valid": {"data": training_set(valid=None)},
    "data.estimator": {"data": training_set(estimator=lambda rows: -next_item_scores(rows))},
    "data.order": {"data": training_set(order=torch.arange(40))},
}


@pytest.mark.parametrize(("message", "given"), OTHERS.items(), ids=OTHERS)
def test_the_checkpoint_of_another_run_is_refused_with_the_differences(message, given, tmp_path):
    training(folder=tmp_path / "saved").run(until=2)
    with pytest.raises(ArtifactError, match="another run") as error:
        training(**given, folder=tmp_path / "saved")
    assert message in str(error.value)
    differing = str(error.value).partition("another run: ")[2].count(" there, ")
    assert differing == 1 or message == "data.events"  # the fingerprint of an estimator depends on the events


def test_every_setting_of_the_plan_identifies_the_run(tmp_path):
    one = training(folder=tmp_path / "saved")
    assert set(one._run["plan"]) == {field.name for field in dataclasses.fields(one.plan)}


def test_a_flipped_byte_or_a_missing_file_is_reported(tmp_path):
    folder = tmp_path / "saved"
    training(folder=folder).run(until=2)
    blob = bytearray((folder / TENSORS).read_bytes())
    blob[-1] ^= 1
    (folder / TENSORS).write_bytes(blob)
    with pytest.raises(ArtifactError, match=r"state\.safetensors: its sha256 differs"):
        training(folder=folder)
    (folder / TENSORS).unlink()
    with pytest.raises(ArtifactError, match="missing"):
        training(folder=folder)


def test_a_folder_with_other_content_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="not found"):
        training(folder=tmp_path)
    with pytest.raises(ArtifactError, match="not found"):
        training(folder=tmp_path / "mine.txt")
    save(tmp_path / "other", "something", {"a.txt": "a"}, Lineage())
    with pytest.raises(ArtifactError, match="expected kind 'tree-training', got 'something'"):
        training(folder=tmp_path / "other")


def forged(folder, change):
    """Rewrite the checkpoint of a folder after a change, with correct hashes."""
    training(folder=folder).run(until=7)
    saved = load(folder, KIND)
    tensors, facts = saved.tensors(TENSORS), saved.json(FACTS)
    change(tensors, facts)
    save(folder, KIND, {TENSORS: tensors, FACTS: json.dumps(facts)}, saved.lineage, overwrite=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, facts: facts.pop("step"), "expected index, step"),
        (lambda tensors, facts: facts.update(step="7"), "expected index, step"),
        (lambda tensors, facts: facts.update(more=1), "expected index, step"),
        (lambda tensors, facts: facts["log"][0].pop("loss"), "damaged log entry"),
        (lambda tensors, facts: tensors.pop("losses"), "lacks 'losses'"),
        (lambda tensors, facts: tensors.pop("best_order"), "lacks 'best_order'"),
        (lambda tensors, facts: tensors.pop("index.scorer.nodes.weight"), "do not fit"),
        (lambda tensors, facts: tensors["index.tree.item_of_leaf"].fill_(3), "holds an item 40 times"),
        (lambda tensors, facts: facts["index"]["tree"].update(version=9), "checksum"),
    ],
)
def test_inconsistent_parts_of_a_checkpoint_are_refused(change, message, tmp_path):
    forged(tmp_path / "saved", change)
    with pytest.raises(ArtifactError, match=message):
        training(folder=tmp_path / "saved")


def test_an_empty_folder_starts_a_new_training(tmp_path):
    assert not has_checkpoint(tmp_path)
    assert not has_checkpoint(tmp_path / "nothing")
    training(folder=tmp_path).run(until=1)
    assert has_checkpoint(tmp_path)


def test_a_failed_write_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    whole = training()
    whole.run()
    training(folder=tmp_path / "saved").run(until=3)
    with monkeypatch.context() as patched:
        patched.setattr(staging, "_sync_tree", lambda folder: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            training(folder=tmp_path / "saved").run(until=6)
    resumed = training(folder=tmp_path / "saved")
    assert resumed.state.step == 3
    resumed.run()
    assert same(everything(resumed), everything(whole))


def test_a_checkpoint_set_aside_by_a_killed_writer_is_resumed(tmp_path):
    training(folder=tmp_path / "saved").run(until=3)
    (tmp_path / "saved").rename(tmp_path / ".saved.old")
    resumed = training(folder=tmp_path / "saved")
    assert resumed.state.step == 3
    resumed.run(until=4)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_weights_with_nan_are_not_saved(tmp_path):
    one = training(folder=tmp_path / "saved")
    one.run(until=3)
    with torch.no_grad():
        one.state.index.scorer.nodes.weight.fill_(torch.nan)
    one.state.step += 1
    with pytest.raises(ArtifactError, match="NaN"):
        one._save()
    assert training(folder=tmp_path / "saved").state.step == 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("lazy", [False, True])
def test_training_on_a_gpu_resumes_from_the_saved_state(lazy, tmp_path, monkeypatch):
    monkeypatch.setattr(optimizer, "SPARSE_ROWS", 10 if lazy else 10**9)
    given = (plan(dropout=0.2), training_set(estimator=None), 0, "cuda")
    first = TreeTraining(*given, folder=tmp_path / "saved")
    first.run(until=7)
    second = TreeTraining(*given, folder=tmp_path / "saved")
    assert same(everything(second), everything(first))
    assert all(one.is_cuda for one in second.state.index.tensors().values())
    second.run()
    assert second.state.step == 10
    with pytest.raises(ArtifactError, match="device is 'cuda' there, 'cpu' here"):
        TreeTraining(*given[:3], "cpu", folder=tmp_path / "saved")
