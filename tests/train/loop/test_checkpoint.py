"""Checkpoints of the training loop: a stopped training continues to the same weights, and only the same one does."""

import pytest
import torch
from torch import nn

from shortlist.errors import ArtifactError
from shortlist.train.loop import checkpoint
from shortlist.train.loop.checkpoint import TENSORS
from shortlist.train.loop.loop import Loop

STEPS = 4
VALUES = (1.0, 3.0, 2.0, 4.0, 3.0, 2.0, 9.0)  # patience 2 stops after the sixth, the fourth is the best


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)


def train(folder=None, stop_at=0, values=VALUES, seed=0, epochs=7):
    """The weights, the epochs that were run and the validation values; with `stop_at`, that step is interrupted."""
    torch.manual_seed(seed)
    model, run = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), []

    def batches(epoch):
        run.append(epoch)
        for _ in range(STEPS):
            yield lambda: (model(torch.rand(2, 3)) - 1.0).square().mean()  # torch's own random numbers

    def progress(task, done, total):
        if done == stop_at:
            raise KeyboardInterrupt

    loop = Loop(epochs, 0.1, weight_decay=0.01, patience=2)
    validate = (lambda: values[run[-1]]) if values else None
    try:
        validation = loop.run(model, batches, STEPS, "line", progress, validate, folder=folder)
    except KeyboardInterrupt:
        return {}, run, []
    return model.state_dict(), run, validation


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("values", [VALUES, ()])
@pytest.mark.parametrize("stop_at", [1, STEPS, 2 * STEPS + 3, 5 * STEPS + 1])
def test_interrupted_training_continues_to_the_same_weights(tmp_path, values, stop_at):
    whole, _, validation = train(values=values)
    _, begun, _ = train(tmp_path / "saved", stop_at, values)
    resumed, continued, later = train(tmp_path / "saved", 0, values)
    assert same(whole, resumed)
    assert later == validation
    assert continued[0] == begun[-1]  # the epoch that was interrupted


def test_finished_training_is_not_run_again(tmp_path):
    first, _, validation = train(tmp_path / "saved")
    again, run, later = train(tmp_path / "saved")
    assert same(first, again)
    assert (run, later) == ([], validation)


def test_random_numbers_after_a_resumed_training_are_those_after_the_whole_one(tmp_path):
    train(tmp_path / "saved")
    expected = torch.rand(3)
    train(tmp_path / "saved")
    assert torch.equal(torch.rand(3), expected)


def test_checkpoints_do_not_change_training(tmp_path):
    assert same(train()[0], train(tmp_path / "saved")[0])


def test_a_checkpoint_is_written_after_a_while_and_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 1e9)
    train(tmp_path / "saved", stop_at=5 * STEPS + 1)
    assert not (tmp_path / "saved").exists()
    train(tmp_path / "saved")
    assert (tmp_path / "saved" / TENSORS).is_file()


@pytest.mark.parametrize("change", [{"seed": 1}, {"epochs": 9}])
def test_checkpoint_of_another_training_is_refused(tmp_path, change):
    train(tmp_path / "saved")
    with pytest.raises(ArtifactError, match="holds the checkpoint of another training"):
        train(tmp_path / "saved", **change)


def test_damaged_checkpoint_is_refused_with_what_to_do(tmp_path):
    train(tmp_path / "saved")
    file = tmp_path / "saved" / TENSORS
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="saved, and it is trained again"):
        train(tmp_path / "saved")
