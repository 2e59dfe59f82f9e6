"""Two towers: padding is ignored, an empty history has a vector, and weights rebuild the model."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from tests.worlds import N_ITEMS, towers


@pytest.fixture(scope="module")
def model():
    return towers(max_history=6)


@torch.no_grad()
def test_padding_is_ignored(model):
    unpadded = torch.tensor([[3, 4, 5]])
    for width in (1, 2, 3, 7):
        padded = torch.cat([torch.full((1, width), -1), unpadded], dim=1)
        assert torch.allclose(model.users(padded), model.users(unpadded), atol=1e-6)


@torch.no_grad()
def test_only_the_last_max_history_items_count(model):
    long = torch.tensor([[9, 8, 7, 1, 2, 3, 4, 5, 6]])
    assert torch.equal(model.users(long), model.users(long[:, -6:]))
    assert not torch.allclose(model.users(long[:, -5:]), model.users(long[:, -6:]))


@torch.no_grad()
def test_empty_histories_have_the_same_unit_vector(model):
    users = model.users(torch.full((3, 4), -1))
    assert torch.allclose(users.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(users[0], users[1])


@torch.no_grad()
def test_vectors_have_unit_length_and_order_matters(model):
    users = model.users(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    assert torch.allclose(users.norm(dim=1), torch.ones(2))
    assert not torch.allclose(users[0], users[1])
    assert torch.allclose(model.items().norm(dim=1), torch.ones(N_ITEMS))
    assert torch.allclose(model.items(torch.tensor([[5, 7]]))[0], model.items()[[5, 7]], atol=1e-6)


@torch.no_grad()
def test_logits_are_scaled_cosines(model):
    history = torch.tensor([[1, 2], [3, 4]])
    cosines = model.users(history) @ model.items().T
    assert torch.allclose(model(history), cosines * model.log_scale.exp(), atol=1e-5)
    rows = torch.tensor([[0, 5], [9, 9]])
    assert torch.allclose(model(history, rows), model(history).gather(1, rows), atol=1e-5)


@torch.no_grad()
def test_user_vector_by_hand(model):
    items = model.history_items(torch.tensor([4, 7])) + model.categories(
        torch.tensor([4 % 4, 7 % 4])
    )  # [2, D]
    long, short = (torch.softmax(factor * model.recency[-2:], dim=0) @ items for factor in (1.0, 6.0))
    mixed = model.output(F.gelu(model.hidden(torch.cat([long, short]))))
    expected = F.normalize(mixed + long, dim=0)
    assert torch.allclose(model.users(torch.tensor([[-1, 4, 7]]))[0], expected, atol=1e-5)


@torch.no_grad()
def test_few_rows_and_many_rows_have_the_same_vectors(model):
    rows = torch.arange(3 * N_ITEMS).reshape(3, N_ITEMS) % N_ITEMS
    many = model.items(rows)
    assert many.shape == (3, N_ITEMS, 8)
    assert torch.allclose(many[2], model.items(rows[2]), atol=1e-6)
    histories = rows[:, :5].repeat(20, 1)  # more rows than items
    assert torch.allclose(model.users(histories)[:3], model.users(rows[:, :5]), atol=1e-6)


@torch.no_grad()
def test_towers_are_rebuilt_from_their_weights(model):
    back = TwoTower.of(model.state_dict())
    expected = TwoTowerConfig(N_ITEMS, max_history=6, n_categories=4, width=8, hidden=16)
    assert model.config == expected
    assert back.config == replace(expected, dropout=0.0)
    assert not back.training
    history = torch.tensor([[-1, 1, 2]])
    assert torch.equal(back(history), model(history))


@torch.no_grad()
def test_rest_of_the_batch_does_not_change_a_user_vector(model):
    history = torch.randint(-1, N_ITEMS, (5, 6), generator=torch.Generator().manual_seed(0)).sort(1).values
    whole = model.users(history)
    for row in range(5):
        assert torch.allclose(model.users(history[row : row + 1])[0], whole[row], atol=1e-6)
