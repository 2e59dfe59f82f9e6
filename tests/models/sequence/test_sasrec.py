"""SASRec: attention is causal, padding is ignored, and settings and weights rebuild the model."""

import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig


@pytest.fixture(scope="module")
def model() -> SASRec:
    torch.manual_seed(0)
    return SASRec(SASRecConfig(n_items=20, width=8, max_history=6)).eval()


@torch.no_grad()
def test_later_item_does_not_change_earlier_positions(model):
    one, two = model(torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 9, 5]]))  # [K + 1, D]
    assert torch.allclose(one[:4], two[:4], atol=1e-6)
    assert not torch.allclose(one[4], two[4], atol=1e-3)


@torch.no_grad()
def test_every_position_equals_a_history_that_ends_there(model):
    history = torch.tensor([[3, 1, 4, 1, 5, 9]])
    positions = model(history)[0]  # [7, D]
    for end in range(7):
        assert torch.allclose(model.users(history[:, :end])[0], positions[end], atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("width", [1, 2, 9])
def test_padding_is_ignored(model, width):
    unpadded = torch.tensor([[3, 4, 5]])
    padding = torch.full((1, width), -1)
    assert torch.allclose(model.users(torch.cat([padding, unpadded], 1)), model.users(unpadded), atol=1e-5)
    assert torch.allclose(model.users(torch.tensor([[3, -1, 4, -1, 5]])), model.users(unpadded), atol=1e-5)


@torch.no_grad()
def test_order_matters_and_only_the_last_items_count(model):
    long = torch.tensor([[9, 8, 1, 2, 3, 4, 5, 6]])
    assert torch.equal(model.users(long), model.users(long[:, -6:]))
    assert not torch.allclose(model.users(long), model.users(long.flip(1)), atol=1e-3)


@torch.no_grad()
def test_rest_of_the_batch_does_not_change_scores(model):
    histories = torch.randint(-1, 20, (7, 6), generator=torch.Generator().manual_seed(0))
    together = model.scores(histories)
    for row, alone in enumerate(histories):
        assert torch.allclose(model.scores(alone[None])[0], together[row], atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("width", [0, 1, 6])
def test_empty_history_has_finite_scores(model, width):
    scores = model.scores(torch.full((2, width), -1))
    assert scores.shape == (2, 20)
    assert scores.isfinite().all()
    torch.testing.assert_close(scores[0], scores[1])


@torch.no_grad()
def test_score_is_the_dot_product_with_the_item_embedding(model):
    history = torch.tensor([[1, 2, 3]])
    assert torch.allclose(model.scores(history), model.users(history) @ model.items.weight.T)


def test_padding_has_no_gradient(model):
    model.zero_grad()
    model.scores(torch.tensor([[-1, -1, 3, 4]]))[0, 7].backward()
    touched = model.items.weight.grad.abs().sum(1).nonzero().ravel().tolist()
    assert touched == [3, 4, 7]


@torch.no_grad()
def test_settings_and_weights_rebuild_the_model(model):
    again = SASRec.build(model.settings(), model.state_dict())
    history = torch.tensor([[1, 2, 3]])
    assert torch.equal(again.scores(history), model.scores(history))
    assert not again.training


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="heads must divide width, got 3 heads and width 64"):
        SASRecConfig(n_items=5, heads=3)
