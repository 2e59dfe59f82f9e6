"""FMLP: filters over frequencies are circular convolutions, computed here by hand."""

import math

import pytest
import torch

from shortlist.models.sequence.fmlp import FMLP, FilterBlock, FMLPConfig


@pytest.fixture(scope="module")
def model() -> FMLP:
    torch.manual_seed(0)
    made = FMLP(FMLPConfig(20, max_history=6, width=8)).eval()
    torch.nn.init.normal_(made.empty_history)
    for block in made.blocks:
        torch.nn.init.normal_(block.filters)  # so that what is heard matters
    return made


def echo(filters, length):
    """How loud a filter lets each step of the past sound [length, D]: a sum of waves."""
    real, imaginary = filters[..., 0], filters[..., 1]
    told = torch.zeros(length, filters.shape[1], dtype=filters.dtype)
    for step in range(length):
        for tone in range(len(filters)):
            twice = 1 if tone == 0 or 2 * tone == length else 2  # the mirror image of a tone
            angle = 2 * math.pi * tone * step / length
            told[step] += twice * (real[tone] * math.cos(angle) - imaginary[tone] * math.sin(angle)) / length
    return told


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_a_filter_is_a_circular_convolution(length):
    torch.manual_seed(length)
    block = FilterBlock(length, 4, 0.3).eval()
    torch.nn.init.normal_(block.filters)
    x = torch.randn(3, length, 4)
    kernel = echo(block.filters.double(), length)
    heard = torch.zeros(3, length, 4, dtype=torch.float64)
    for positions in range(length):
        for step in range(length):
            heard[:, positions] += kernel[step] * x[:, (positions - step) % length]
    filter_norm = block.filter_norm(x + heard.float())
    expected = block.mlp_norm(filter_norm + block.mlp(filter_norm))
    torch.testing.assert_close(block(x), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_user_is_the_last_place_of_the_filtered_history(model):
    history = torch.tensor([-1, -1, -1, 3, 1, 4])
    there = (history >= 0)[:, None]
    x = model.norm(model.items.weight[history] * 8**0.5 + model.positions) * there
    for block in model.blocks:
        x = block(x[None])[0] * there
    for given in ([3, 1, 4], [-1, 3, 1, 4], [3, -1, 1, 99, 4], [-1] * 9 + [3, 1, 4]):
        assert torch.allclose(model.users(torch.tensor([given]))[0], x[-1], atol=1e-5)


@torch.no_grad()
def test_without_a_history_the_user_is_one_of_whom_nothing_is_known(model):
    for history in ([], [-1], [-1] * 9, [99]):
        assert torch.equal(model.users(torch.tensor([history], dtype=torch.int64))[0], model.empty_history)


@torch.no_grad()
def test_nobody_can_be_asked_for(model):
    assert model.scores(torch.empty(0, 4, dtype=torch.int64)).shape == (0, 20)


@torch.no_grad()
def test_the_order_of_a_history_matters(model):
    history = torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-3)


def test_padding_takes_no_gradient(model):
    model.zero_grad()
    model.scores(torch.tensor([[-1, -1, 3, 4]]))[0, 7].backward()
    assert model.items.weight.grad.abs().sum(1).nonzero().ravel().tolist() == [3, 4, 7]
