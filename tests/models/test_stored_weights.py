"""Modules with stored weights: sizes are compared first."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from shortlist.models.registry import MODELS
from shortlist.models.stored_weights import with_weights
from tests.pipeline.every_stage import model


def linear():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gets_its_weights_back(name):
    made = model(name)
    again = with_weights(lambda: type(made)(made.config), made.state_dict())
    assert not again.training
    assert all(torch.equal(one, again.state_dict()[key]) for key, one in made.state_dict().items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.weight": torch.zeros(2, 4)}, r"^size mismatch for 0.weight: expected \[2, 3\], got \[2, 4\]$"),
        (
            {"0.weight": torch.zeros(2, 3, dtype=torch.int64)},
            "^0.weight: expected torch.float32, got torch.int64$",
        ),
        ({"1.num_batches_tracked": torch.tensor(0.5)}, "expected torch.int64, got torch.float32"),
        ({"more": torch.zeros(1)}, "^more is not expected$"),
    ],
)
def test_weights_that_do_not_fit_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        with_weights(linear, {**linear().state_dict(), **change})


def test_missing_weight_is_named():
    weights = linear().state_dict()
    del weights["0.bias"]
    with pytest.raises(ValueError, match=r"^0.bias is missing$"):
        with_weights(linear, weights)


def test_absurd_size_needs_no_memory():
    with pytest.raises(ValueError, match="size mismatch for weight"):
        with_weights(lambda: nn.Embedding(10**14, 64), {"weight": torch.zeros(3, 64)})


def test_loading_does_not_import_the_compiler_of_torch():
    code = (
        "import sys; from torch import nn; from shortlist.models.stored_weights import with_weights\n"
        "from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig\n"
        "config = TwoTowerConfig(n_items=5, n_categories=2)\n"
        "with_weights(lambda: nn.Linear(2, 3), nn.Linear(2, 3).state_dict())\n"
        "with_weights(lambda: TwoTower(config), TwoTower(config).state_dict())\n"
        "print([name for name in ('torch._dynamo', 'torch._inductor', 'sympy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
