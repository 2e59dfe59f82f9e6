"""Models travel as tensors: name and settings with the weights, and whatever is wrong with them is said."""

import json

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.registry import ABOUT, MODELS, PREFIX, model_name, packed, unpacked
from shortlist.models.sequence.bert4rec import BERT4RecConfig
from shortlist.models.sequence.fmlp import FMLPConfig
from shortlist.models.sequence.sasrec import SASRecConfig
from shortlist.pipeline import TYPES
from shortlist.train.registry import MODEL_TRAINERS

SMALL = {BERT4RecConfig: {"max_history": 7}, FMLPConfig: {"memory": 7}, SASRecConfig: {"memory": 7}}


def fresh(name):
    """A model of ten items with weights by chance, none of them where it would be fresh."""
    kind = MODELS[name]
    torch.manual_seed(0)
    model = kind(kind.Config(10, **SMALL.get(kind.Config, {}))).eval()
    for weight in model.state_dict().values():
        if weight.is_floating_point():
            weight.copy_(torch.rand(weight.shape))
    return model


def told(**about):
    """Tensors of a model that is told of in these words."""
    return {ABOUT: torch.frombuffer(bytearray(json.dumps(about).encode()), dtype=torch.uint8)}


def test_every_model_can_be_a_stage_and_be_trained():
    assert set(MODELS) == set(MODEL_TRAINERS)
    assert set(MODELS) <= set(TYPES)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_knows_its_name_and_comes_back_with_the_same_scores(name):
    model = fresh(name)
    assert model_name(model) == name
    again = unpacked(packed(model))
    assert type(again) is type(model)
    assert again.config == model.config
    history = torch.tensor([[1, 2, 3], [-1, -1, 9], [-1, -1, -1]])
    with torch.no_grad():
        assert torch.equal(again.scores(history), model.scores(history))


@pytest.mark.parametrize("name", MODELS)
def test_what_travels_is_plain_and_a_copy_shares_nothing(name):
    model = fresh(name)
    tensors = packed(model)
    assert set(tensors) == {ABOUT, *(PREFIX + part for part in model.state_dict())}
    assert not any(one.requires_grad for one in tensors.values())
    again = unpacked(tensors)
    for one in tensors.values():
        one.zero_()
    held = [one for one in again.state_dict().values() if one.is_floating_point() and one.numel()]
    assert all(bool(one.any()) for one in held)


def test_tensors_that_do_not_say_what_they_are_are_refused():
    with pytest.raises(ArtifactError, match="its tensors lack 'about'; make the artifact again"):
        unpacked({"model.weights": torch.zeros(2, 2)})


@pytest.mark.parametrize(
    "tensors",
    [
        told(model="oracle", settings={}),
        told(model="sasrec"),
        told(settings={}),
        told(model="sasrec", settings=3),
        told(model=["sasrec"], settings={}),
        {ABOUT: torch.tensor([1, 2, 3], dtype=torch.uint8)},
        {ABOUT: torch.tensor([1.5])},
        {ABOUT: torch.tensor([300])},
        {ABOUT: torch.tensor([[1, 2]])},
        {ABOUT: torch.frombuffer(bytearray(b"[" * 100_000), dtype=torch.uint8)},
        {ABOUT: torch.frombuffer(bytearray(b'"sasrec"'), dtype=torch.uint8)},
    ],
)
def test_tensors_that_name_no_model_are_refused(tensors):
    with pytest.raises(ArtifactError, match="'about' names no model of bert4rec, din, ease"):
        unpacked(tensors)


def test_weights_that_do_not_fit_are_refused():
    sasrec, ease = packed(fresh("sasrec")), packed(fresh("ease"))
    with pytest.raises(ArtifactError, match="SASRec: settings and weights do not fit"):
        unpacked({**ease, ABOUT: sasrec[ABOUT]})
    with pytest.raises(ArtifactError, match="EASE: settings and weights do not fit"):
        unpacked({**ease, "model.weights": torch.zeros(3, 3)})
    with pytest.raises(ArtifactError, match="EASE: settings and weights do not fit"):
        unpacked({ABOUT: ease[ABOUT]})


def test_other_tensors_beside_the_model_do_not_disturb():
    model = fresh("ease")
    again = unpacked({**packed(model), "index.rows": torch.zeros(3)})
    assert torch.equal(again.weights, model.weights)
