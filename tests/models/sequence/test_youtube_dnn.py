"""YouTubeDNN: the mean embedding of a history through an MLP; items have two embeddings."""

import pytest
import torch

from shortlist.models.sequence.youtube_dnn import YouTubeDNN, YouTubeDNNConfig


@pytest.fixture(scope="module")
def model() -> YouTubeDNN:
    torch.manual_seed(0)
    return YouTubeDNN(YouTubeDNNConfig(20, max_history=6, width=8, layers=(7, 5))).eval()


@torch.no_grad()
def test_scores_equal_the_tower_by_hand(model):
    x = model.history_items.weight[[3, 4, 4]].mean(0)
    first, second, third = (part for part in model.tower if isinstance(part, torch.nn.Linear))
    assert (first.out_features, second.out_features, third.out_features) == (7, 5, 8)
    for layer in (first, second):
        x = (layer.weight @ x + layer.bias).clamp(min=0)
    expected = model.items.weight @ (third.weight @ x + third.bias)
    scores = model.scores(torch.tensor([[-1, 3, 4, 4]]))[0]
    assert torch.allclose(scores, expected, atol=1e-6)


def test_item_has_one_embedding_in_histories_and_another_as_candidate(model):
    model.zero_grad()
    model.scores(torch.tensor([[-1, -1, 3, 4]]))[0, 7].backward()
    assert model.history_items.weight.grad.abs().sum(1).nonzero().ravel().tolist() == [3, 4]
    assert model.items.weight.grad.abs().sum(1).nonzero().ravel().tolist() == [7]


@torch.no_grad()
def test_order_does_not_matter_and_only_max_history_items_count(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9]])
    assert torch.allclose(model.users(history), model.users(history.flip(1)), atol=1e-6)
    longer = torch.cat([torch.tensor([[8, 8]]), history], dim=1)
    assert torch.equal(model.users(longer), model.users(history))


@torch.no_grad()
def test_empty_history_is_a_zero_input(model):
    expected = model.tower(torch.zeros(1, 8))
    assert torch.allclose(model.users(torch.empty(1, 0, dtype=torch.int64)), expected)
    assert torch.allclose(model.users(torch.tensor([[-1, 99]])), expected)
