"""SumPooling: a running mean, by a loop; the order of a history does not matter."""

import pytest
import torch

from shortlist.models.sequence.sum_pooling import SumPooling, SumPoolingConfig, running_mean


@pytest.fixture(scope="module")
def model() -> SumPooling:
    torch.manual_seed(0)
    return SumPooling(SumPoolingConfig(20, max_history=6, width=8, hidden=5)).eval()


@pytest.mark.parametrize("width", [0, 1, 5])
def test_the_running_mean_is_that_of_a_loop(width):
    generator = torch.Generator().manual_seed(width)
    x = torch.randn(4, width, 3, dtype=torch.float64, generator=generator)
    there = torch.rand(4, width, generator=generator) < 0.6
    told = running_mean(x, there)
    assert told.shape == (4, width + 1, 3)
    for user in range(4):
        for place in range(width + 1):
            before = [x[user, at] for at in range(place) if there[user, at]]
            expected = torch.stack(before).mean(0) if before else torch.zeros(3, dtype=torch.float64)
            torch.testing.assert_close(told[user, place], expected)


@torch.no_grad()
def test_a_user_is_the_mean_of_what_was_met_through_the_network(model):
    mean = model.items.weight[[3, 4, 4, 7]].mean(0) * 8**0.5
    expected = model.norm(mean + model.mlp(mean))
    assert torch.allclose(model.users(torch.tensor([[3, 4, 4, 7]]))[0], expected, atol=1e-6)


@torch.no_grad()
def test_the_order_of_a_history_does_not_matter(model):
    history = torch.tensor([[3, 1, 4, 1, 5]])
    assert torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-6)


@torch.no_grad()
def test_every_place_is_what_the_user_would_be_with_a_history_that_ends_there(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9]])
    everywhere = model(history)[0]
    for end in range(7):
        assert torch.allclose(model.users(history[:, :end])[0], everywhere[end], atol=1e-6)


@torch.no_grad()
def test_without_a_history_the_mean_is_nothing(model):
    nothing = torch.zeros(8)
    assert torch.allclose(
        model.users(torch.empty(1, 0, dtype=torch.int64))[0], model.norm(model.mlp(nothing))
    )
