"""All models: which items of a history are read, and how settings and weights rebuild a model."""

import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError
from shortlist.models.model import Model, ModelConfig, VectorModel, without_repeats
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig


class Bare(Model):
    """Scores are the counts of items that were read."""

    def scores(self, history, user=None):
        read = self.read(history)
        every = torch.arange(self.config.n_items)
        return (read[:, :, None] == every).sum(1).float()


class Pointer(VectorModel):
    """The user vector is that of the last item."""

    def users(self, history, user=None):
        return self.vectors()[self.read(history)[:, -1]]

    def vectors(self):
        return torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 2.0]], dtype=torch.float64)


def slow_read(history, n_items, max_history):
    """The last items of each history, in a loop."""
    kept = [[row for row in rows if 0 <= row < n_items][-max_history:] for rows in history.tolist()]
    width = min(max_history, history.shape[1])
    return torch.tensor([[-1] * (width - len(rows)) + rows for rows in kept], dtype=torch.int64)


@pytest.mark.parametrize("max_history", [1, 3, 8, 50])
@pytest.mark.parametrize("width", [1, 7, 20])
def test_last_items_are_read_in_order_with_padding_first(max_history, width):
    history = torch.randint(-3, 14, (30, width), generator=torch.Generator().manual_seed(width))
    read = Bare(ModelConfig(10, max_history)).read(history)
    assert torch.equal(read, slow_read(history, 10, max_history))


def test_unknown_rows_do_not_count_towards_max_history():
    model = Bare(ModelConfig(3, max_history=2))
    assert model.read(torch.tensor([[0, 1, 3, 2**40, -1, -9]])).tolist() == [[0, 1]]


@pytest.mark.parametrize(("n_items", "width"), [(0, 4), (0, 0), (5, 0)])
def test_empty_catalogue_or_history_reads_nothing(n_items, width):
    model = Bare(ModelConfig(n_items))
    assert model.read(torch.zeros(3, width, dtype=torch.int64)).shape == (3, 0)
    assert model.scores(torch.zeros(3, width, dtype=torch.int64)).shape == (3, n_items)


def test_reading_does_not_change_the_history():
    history = torch.tensor([[4, -1, 7, 2]])
    Bare(ModelConfig(5, max_history=2)).read(history)
    assert history.tolist() == [[4, -1, 7, 2]]


def test_only_the_first_of_repeated_items_stays():
    history = torch.tensor([[-1, 3, 1, 3, 3], [2, 2, 2, -1, 0], [-1, -1, 5, 4, 1]])
    assert without_repeats(history).tolist() == [[-1, 3, 1, -1, -1], [2, -1, -1, -1, 0], [-1, -1, 5, 4, 1]]
    assert without_repeats(history[:, :0]).shape == (3, 0)


def test_scores_are_dot_products_in_float32():
    scores = Pointer(ModelConfig(3)).scores(torch.tensor([[0, 2], [2, 1]]))
    assert scores.dtype == torch.float32
    assert scores.tolist() == [[0.0, 1.0, 4.0], [0.5, 0.5, 1.0]]


def test_device_is_that_of_the_weights_or_cpu_without_any():
    assert Bare(ModelConfig(3)).device.type == "cpu"
    with torch.device("meta"):
        assert SASRec(SASRecConfig(3, width=4)).device.type == "meta"


@pytest.mark.parametrize(("n_items", "max_history"), [(-1, 5), (5, 0), (5, -3)])
def test_invalid_sizes_are_refused(n_items, max_history):
    with pytest.raises(
        ConfigError, match=r"n_items must be at least 0|max_history must lie between 1 and 10000"
    ):
        ModelConfig(n_items, max_history)


def test_settings_and_weights_rebuild_a_model_in_eval_mode():
    model = SASRec(SASRecConfig(6, max_history=4, width=4))
    again = SASRec.build(model.settings(), model.state_dict())
    assert again.config == model.config
    assert not again.training
    assert all(torch.equal(one, again.state_dict()[name]) for name, one in model.state_dict().items())


@pytest.mark.parametrize(
    "wrong",
    [
        {"depth": 3},  # unknown setting
        {"width": 8},  # other sizes than the weights
        {"n_items": 7},
        {"n_items": "six"},  # not a number
        {"n_items": -6},  # refused by the configuration
        {"heads": 0},  # outside its range
        {"heads": 3},
        {"dropout": 2.0},  # outside its range
    ],
)
def test_settings_that_do_not_fit_the_weights_are_an_artifact_error(wrong):
    model = SASRec(SASRecConfig(6, max_history=4, width=4))
    with pytest.raises(ArtifactError, match="SASRec: settings and weights do not fit"):
        SASRec.build({**model.settings(), **wrong}, model.state_dict())


@pytest.mark.parametrize("change", ["less", "more", "none"])
def test_weights_that_do_not_fit_the_settings_are_an_artifact_error(change):
    model = SASRec(SASRecConfig(6, max_history=4, width=4))
    weights = dict(model.state_dict())
    if change == "less":
        del weights["start_token"]
    if change == "more":
        weights["another"] = torch.zeros(1)
    with pytest.raises(ArtifactError, match="do not fit"):
        SASRec.build(model.settings(), {} if change == "none" else weights)
