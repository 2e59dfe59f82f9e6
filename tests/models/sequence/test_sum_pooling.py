"""SumPooling: a running mean; the order of a history does not matter."""

import pytest
import torch

from shortlist.models.sequence.sum_pooling import SumPooling, SumPoolingConfig, running_mean


@pytest.fixture(scope="module")
def model() -> SumPooling:
    torch.manual_seed(0)
    return SumPooling(SumPoolingConfig(20, max_history=6, width=8, hidden=5)).eval()


@pytest.mark.parametrize("width", [0, 1, 5])
def test_running_mean_equals_a_loop(width):
    generator = torch.Generator().manual_seed(width)
    x = torch.randn(4, width, 3, dtype=torch.float64, generator=generator)
    valid = torch.rand(4, width, generator=generator) < 0.6
    mean = running_mean(x, valid)
    assert mean.shape == (4, width + 1, 3)
    for user in range(4):
        for position in range(width + 1):
            before = [x[user, at] for at in range(position) if valid[user, at]]
            expected = torch.stack(before).mean(0) if before else torch.zeros(3, dtype=torch.float64)
            torch.testing.assert_close(mean[user, position], expected)


@torch.no_grad()
def test_user_vector_is_the_mean_embedding_through_the_mlp(model):
    mean = model.items.weight[[3, 4, 4, 7]].mean(0) * 8**0.5
    expected = model.norm(mean + model.mlp(mean))
    assert torch.allclose(model.users(torch.tensor([[3, 4, 4, 7]]))[0], expected, atol=1e-6)


@torch.no_grad()
def test_order_does_not_matter(model):
    history = torch.tensor([[3, 1, 4, 1, 5]])
    assert torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-6)


@torch.no_grad()
def test_every_position_equals_a_history_that_ends_there(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9]])
    positions = model(history)[0]
    for end in range(7):
        assert torch.allclose(model.users(history[:, :end])[0], positions[end], atol=1e-6)


@torch.no_grad()
def test_mean_of_an_empty_history_is_zero(model):
    zero = torch.zeros(8)
    assert torch.allclose(model.users(torch.empty(1, 0, dtype=torch.int64))[0], model.norm(model.mlp(zero)))
