"""Models as tensors: name and settings are stored with the weights, and damage is an error."""

import json

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.registry import ABOUT, MODELS, PREFIX, model_name, packed, unpacked
from shortlist.models.sequence.bert4rec import BERT4RecConfig
from shortlist.models.sequence.fmlp import FMLPConfig
from shortlist.models.sequence.sasrec import SASRecConfig
from shortlist.pipeline import TYPES
from shortlist.train.registry import make_trainer

SMALL = {BERT4RecConfig: {"max_history": 7}, FMLPConfig: {"max_history": 7}, SASRecConfig: {"max_history": 7}}


def random_model(name):
    """A model of ten items with random weights, none at its initial value."""
    kind = MODELS[name]
    torch.manual_seed(0)
    model = kind(kind.Config(10, **SMALL.get(kind.Config, {}))).eval()
    for weight in model.state_dict().values():
        if weight.is_floating_point():
            weight.copy_(torch.rand(weight.shape))
    return model


def about_tensor(**about):
    """Tensors with only this description of a model."""
    return {ABOUT: torch.frombuffer(bytearray(json.dumps(about).encode()), dtype=torch.uint8)}


def test_every_model_is_a_stage_type_with_a_trainer():
    assert set(MODELS) <= set(TYPES)
    assert all(make_trainer(name).model is kind for name, kind in MODELS.items())


@pytest.mark.parametrize("name", MODELS)
def test_model_has_a_name_and_the_same_scores_after_packing(name):
    model = random_model(name)
    assert model_name(type(model)) == name
    again = unpacked(packed(model))
    assert type(again) is type(model)
    assert again.config == model.config
    history = torch.tensor([[1, 2, 3], [-1, -1, 9], [-1, -1, -1]])
    with torch.no_grad():
        assert torch.equal(again.scores(history), model.scores(history))


@pytest.mark.parametrize("name", MODELS)
def test_packed_tensors_are_copies_without_gradients(name):
    model = random_model(name)
    tensors = packed(model)
    assert set(tensors) == {ABOUT, *(PREFIX + part for part in model.state_dict())}
    assert not any(one.requires_grad for one in tensors.values())
    again = unpacked(tensors)
    for one in tensors.values():
        one.zero_()
    held = [one for one in again.state_dict().values() if one.is_floating_point() and one.numel()]
    assert all(bool(one.any()) for one in held)


def test_tensors_without_description_are_refused():
    with pytest.raises(ArtifactError, match="model: tensor 'about' is missing"):
        unpacked({"model.weights": torch.zeros(2, 2)})


@pytest.mark.parametrize(
    "tensors",
    [
        about_tensor(model="oracle", settings={}),
        about_tensor(model="sasrec"),
        about_tensor(settings={}),
        about_tensor(model="sasrec", settings=3),
        about_tensor(model=["sasrec"], settings={}),
        {ABOUT: torch.tensor([1, 2, 3], dtype=torch.uint8)},
        {ABOUT: torch.tensor([1.5])},
        {ABOUT: torch.tensor([300])},
        {ABOUT: torch.tensor([[1, 2]])},
        {ABOUT: torch.frombuffer(bytearray(b"[" * 100_000), dtype=torch.uint8)},
        {ABOUT: torch.frombuffer(bytearray(b'"sasrec"'), dtype=torch.uint8)},
    ],
)
def test_damaged_descriptions_are_refused(tensors):
    with pytest.raises(ArtifactError, match="model: 'about'"):
        unpacked(tensors)


def test_weights_that_do_not_fit_are_refused():
    sasrec, ease = packed(random_model("sasrec")), packed(random_model("ease"))
    with pytest.raises(ArtifactError, match="SASRec: settings and weights do not fit"):
        unpacked({**ease, ABOUT: sasrec[ABOUT]})
    with pytest.raises(ArtifactError, match="EASE: settings and weights do not fit"):
        unpacked({**ease, "model.weights": torch.zeros(3, 3)})
    with pytest.raises(ArtifactError, match="EASE: settings and weights do not fit"):
        unpacked({ABOUT: ease[ABOUT]})


def test_other_tensors_beside_the_model_are_ignored():
    model = random_model("ease")
    again = unpacked({**packed(model), "index.rows": torch.zeros(3)})
    assert torch.equal(again.weights, model.weights)
