"""FMLP: filters over frequencies are circular convolutions, computed here by hand."""

import math

import pytest
import torch

from shortlist.models.sequence.fmlp import FMLP, FilterBlock, FMLPConfig


@pytest.fixture(scope="module")
def model() -> FMLP:
    torch.manual_seed(0)
    new = FMLP(FMLPConfig(20, max_history=6, width=8)).eval()
    torch.nn.init.normal_(new.empty_history)
    for block in new.blocks:
        torch.nn.init.normal_(block.filters)  # large enough to matter
    return new


def impulse_response(filters, length):
    """The circular convolution kernel of a filter [length, D]."""
    real, imaginary = filters[..., 0], filters[..., 1]
    kernel = torch.zeros(length, filters.shape[1], dtype=filters.dtype)
    for step in range(length):
        for frequency in range(len(filters)):
            twice = 1 if frequency == 0 or 2 * frequency == length else 2  # its mirrored frequency
            angle = 2 * math.pi * frequency * step / length
            kernel[step] += (
                twice * (real[frequency] * math.cos(angle) - imaginary[frequency] * math.sin(angle)) / length
            )
    return kernel


@torch.no_grad()
@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_filter_is_a_circular_convolution(length):
    torch.manual_seed(length)
    block = FilterBlock(length, 4, 0.3).eval()
    torch.nn.init.normal_(block.filters)
    x = torch.randn(3, length, 4)
    kernel = impulse_response(block.filters.double(), length)
    filtered = torch.zeros(3, length, 4, dtype=torch.float64)
    for position in range(length):
        for step in range(length):
            filtered[:, position] += kernel[step] * x[:, (position - step) % length]
    normed = block.filter_norm(x + filtered.float())
    expected = block.mlp_norm(normed + block.mlp(normed))
    torch.testing.assert_close(block(x), expected, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_user_vector_is_the_last_position_of_the_filtered_history(model):
    history = torch.tensor([-1, -1, -1, 3, 1, 4])
    valid = (history >= 0)[:, None]
    x = model.norm(model.items.weight[history] * 8**0.5 + model.positions) * valid
    for block in model.blocks:
        x = block(x[None])[0] * valid
    for given in ([3, 1, 4], [-1, 3, 1, 4], [3, -1, 1, 99, 4], [-1] * 9 + [3, 1, 4]):
        assert torch.allclose(model.users(torch.tensor([given]))[0], x[-1], atol=1e-5)


@torch.no_grad()
def test_empty_history_has_its_own_vector(model):
    for history in ([], [-1], [-1] * 9, [99]):
        assert torch.equal(model.users(torch.tensor([history], dtype=torch.int64))[0], model.empty_history)


@torch.no_grad()
def test_empty_batch_has_no_scores(model):
    assert model.scores(torch.empty(0, 4, dtype=torch.int64)).shape == (0, 20)


@torch.no_grad()
def test_the_order_of_a_history_matters(model):
    history = torch.tensor([[1, 2, 3, 4]])
    assert not torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-3)


def test_padding_has_no_gradient(model):
    model.zero_grad()
    model.scores(torch.tensor([[-1, -1, 3, 4]]))[0, 7].backward()
    assert model.items.weight.grad.abs().sum(1).nonzero().ravel().tolist() == [3, 4, 7]
