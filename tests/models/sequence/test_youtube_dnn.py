"""YouTubeDNN: the mean of what was watched through a tower, items with two vectors."""

import pytest
import torch

from shortlist.models.sequence.youtube_dnn import YouTubeDNN, YouTubeDNNConfig


@pytest.fixture(scope="module")
def model() -> YouTubeDNN:
    torch.manual_seed(0)
    return YouTubeDNN(YouTubeDNNConfig(20, max_history=6, width=8, layers=(7, 5))).eval()


@torch.no_grad()
def test_scores_are_those_of_the_tower_by_hand(model):
    x = model.history_items.weight[[3, 4, 4]].mean(0)
    first, second, third = (part for part in model.tower if isinstance(part, torch.nn.Linear))
    assert (first.out_features, second.out_features, third.out_features) == (7, 5, 8)
    for layer in (first, second):
        x = (layer.weight @ x + layer.bias).clamp(min=0)
    expected = model.items.weight @ (third.weight @ x + third.bias)
    told = model.scores(torch.tensor([[-1, 3, 4, 4]]))[0]
    assert torch.allclose(told, expected, atol=1e-6)


def test_an_item_has_one_vector_in_a_history_and_another_to_be_shown(model):
    model.zero_grad()
    model.scores(torch.tensor([[-1, -1, 3, 4]]))[0, 7].backward()
    assert model.history_items.weight.grad.abs().sum(1).nonzero().ravel().tolist() == [3, 4]
    assert model.items.weight.grad.abs().sum(1).nonzero().ravel().tolist() == [7]


@torch.no_grad()
def test_the_order_of_a_history_does_not_matter_beyond_what_is_remembered(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9]])
    assert torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-6)
    longer = torch.cat([torch.tensor([[8, 8]]), history], dim=1)
    assert torch.equal(model.users(longer), model.users(history))


@torch.no_grad()
def test_without_a_history_the_tower_hears_nothing(model):
    expected = model.tower(torch.zeros(1, 8))
    assert torch.allclose(model.users(torch.empty(1, 0, dtype=torch.int64)), expected)
    assert torch.allclose(model.users(torch.tensor([[-1, 99]])), expected)
