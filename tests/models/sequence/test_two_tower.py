"""Two towers: padding says nothing, nothing met is an answer too, and weights are all there is."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.models.sequence.two_tower import TwoTowerConfig, TwoTower
from tests.worlds import N_ITEMS, towers


@pytest.fixture(scope="module")
def model():
    return towers(max_history=6)


@torch.no_grad()
def test_padding_says_nothing(model):
    bare = torch.tensor([[3, 4, 5]])
    for width in (1, 2, 3, 7):
        padded = torch.cat([torch.full((1, width), -1), bare], dim=1)
        assert torch.allclose(model.users(padded), model.users(bare), atol=1e-6)


@torch.no_grad()
def test_only_the_last_of_the_memory_count(model):
    long = torch.tensor([[9, 8, 7, 1, 2, 3, 4, 5, 6]])
    assert torch.equal(model.users(long), model.users(long[:, -6:]))
    assert not torch.allclose(model.users(long[:, -5:]), model.users(long[:, -6:]))


@torch.no_grad()
def test_users_without_history_are_all_alike_and_have_a_direction(model):
    users = model.users(torch.full((3, 4), -1))
    assert torch.allclose(users.norm(dim=1), torch.ones(3))
    assert torch.equal(users[0], users[1])


@torch.no_grad()
def test_vectors_have_unit_length_and_order_matters(model):
    users = model.users(torch.tensor([[1, 2, 3], [3, 2, 1]]))
    assert torch.allclose(users.norm(dim=1), torch.ones(2))
    assert not torch.allclose(users[0], users[1])
    assert torch.allclose(model.items().norm(dim=1), torch.ones(N_ITEMS))
    assert torch.allclose(model.items(torch.tensor([[5, 7]]))[0], model.items()[[5, 7]], atol=1e-6)


@torch.no_grad()
def test_logits_are_cosines_times_the_temperature(model):
    history = torch.tensor([[1, 2], [3, 4]])
    cosines = model.users(history) @ model.items().T
    assert torch.allclose(model(history), cosines * model.log_scale.exp(), atol=1e-5)
    rows = torch.tensor([[0, 5], [9, 9]])
    assert torch.allclose(model(history, rows), model(history).gather(1, rows), atol=1e-5)


@torch.no_grad()
def test_a_user_vector_by_hand(model):
    met = model.met(torch.tensor([4, 7])) + model.categories(torch.tensor([4 % 4, 7 % 4]))  # [2, D]
    long, short = (torch.softmax(heat * model.recency[-2:], dim=0) @ met for heat in (1.0, 6.0))
    mixed = model.output(F.gelu(model.hidden(torch.cat([long, short]))))
    expected = F.normalize(mixed + long, dim=0)
    assert torch.allclose(model.users(torch.tensor([[-1, 4, 7]]))[0], expected, atol=1e-5)


@torch.no_grad()
def test_few_places_and_many_places_hold_the_same_vectors(model):
    rows = torch.arange(3 * N_ITEMS).reshape(3, N_ITEMS) % N_ITEMS
    many = model.items(rows)
    assert many.shape == (3, N_ITEMS, 8)
    assert torch.allclose(many[2], model.items(rows[2]), atol=1e-6)
    histories = rows[:, :5].repeat(20, 1)  # more places than items
    assert torch.allclose(model.users(histories)[:3], model.users(rows[:, :5]), atol=1e-6)


@torch.no_grad()
def test_the_towers_come_back_from_their_weights(model):
    back = TwoTower.of(model.state_dict())
    assert back.config == model.config == TwoTowerConfig(N_ITEMS, 4, 8, 16, 6)
    assert not back.training
    history = torch.tensor([[-1, 1, 2]])
    assert torch.equal(back(history), model(history))


@torch.no_grad()
def test_a_request_is_answered_alike_alone_and_in_a_batch(model):
    history = torch.randint(-1, N_ITEMS, (5, 6), generator=torch.Generator().manual_seed(0)).sort(1).values
    whole = model.users(history)
    for row in range(5):
        assert torch.allclose(model.users(history[row : row + 1])[0], whole[row], atol=1e-6)
