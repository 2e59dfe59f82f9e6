"""MF: users of the training data have their own vectors, all others are folded in by least squares."""

import numpy as np
import pytest
import torch

from shortlist.models.collaborative.mf import MF, MFConfig, known_users
from shortlist.testing.models import events_of
from shortlist.train.registry import make_trainer

CONFIG = MFConfig(20, n_users=5, width=4, unobserved_weight=0.1, ridge=0.5)


@pytest.fixture(scope="module")
def model() -> MF:
    """Users 0, 1 and 3 have training events."""
    torch.manual_seed(0)
    new = MF(CONFIG).eval()
    torch.nn.init.normal_(new.items.weight)
    new.finish(torch.tensor([True, True, False, True, False]))
    return new


def solved(model, history):
    """The fold-in vector of a history, in float64."""
    items = model.items.weight.detach().double().numpy()
    own = items[history]
    left = CONFIG.unobserved_weight * items.T @ items + own.T @ own + CONFIG.ridge * np.eye(4)
    return torch.from_numpy(np.linalg.solve(left, own.sum(0))).float()


@torch.no_grad()
@pytest.mark.parametrize("history", [[3], [3, 1, 4], [3, 3, 1], list(range(20))])
def test_fold_in_solves_the_least_squares(model, history):
    found = model.users(torch.tensor([[-1, *history, 99]]))[0]
    assert torch.allclose(found, solved(model, history), atol=1e-5)


@torch.no_grad()
def test_fold_in_minimises_its_loss(model):
    """w * sum (p q)^2 over all items + sum (1 - p q)^2 over the history + ridge * p^2 is minimal."""
    items, history = model.items.weight.double(), [3, 1, 4]

    def loss(p):
        all_items, own = items @ p, items[history] @ p
        return (
            CONFIG.unobserved_weight * all_items.square().sum()
            + (1 - own).square().sum()
            + CONFIG.ridge * p.square().sum()
        )

    best = model.users(torch.tensor([history]))[0].double()
    for _ in range(20):
        assert loss(best) < loss(best + 0.01 * torch.randn(4, dtype=torch.float64))


@torch.no_grad()
def test_known_user_has_its_own_vector_for_any_history(model):
    known = torch.tensor([0, 1, 3])
    for history in (torch.tensor([[3, 1], [-1, 2], [-1, -1]]), torch.empty(3, 0, dtype=torch.int64)):
        assert torch.equal(model.users(history, known), model.user_embedding.weight[known])


@torch.no_grad()
@pytest.mark.parametrize("user", [2, 4, 5, 10**12, -1, -5])
def test_user_without_training_events_is_folded_in(model, user):
    history = torch.tensor([[3, 1, 4]])
    assert torch.equal(model.users(history, torch.tensor([user])), model.users(history))


@torch.no_grad()
def test_unknown_user_without_history_gets_the_mean_user(model):
    mean_user = model.user_embedding.weight[[0, 1, 3]].mean(0)
    for history in ([], [-1, -1], [99]):
        assert torch.equal(model.users(torch.tensor([history], dtype=torch.int64))[0], mean_user)


@torch.no_grad()
def test_score_is_the_dot_product_of_user_and_item_vector(model):
    found = model.scores(torch.tensor([[3, 1]]), torch.tensor([3]))
    assert torch.allclose(found[0], model.items.weight @ model.user_embedding.weight[3], atol=1e-6)


@torch.no_grad()
def test_model_without_users_folds_every_user_in():
    torch.manual_seed(0)
    model = MF(MFConfig(6, width=3)).eval()
    model.finish(torch.zeros(0, dtype=torch.bool))
    found = model.users(torch.tensor([[2, 3]]), torch.tensor([0]))
    assert torch.equal(found, model.users(torch.tensor([[2, 3]])))
    assert not model.users(torch.tensor([[-1]])).any()


def test_users_held_out_of_training_are_folded_in():
    events = events_of([0, 0, 2, 2], [0, 1, 1, 2], n_users=4, n_items=3)  # users 1 and 3 have no event
    model = make_trainer("mf", width=4, epochs=2, negatives=4, device="cpu").learn(events)
    assert model.trained_users.tolist() == [True, False, True, False]
    history = torch.tensor([[0, 1]])
    with torch.no_grad():
        assert torch.equal(model.users(history, torch.tensor([1])), model.users(history))
        assert torch.equal(model.users(history, torch.tensor([2]))[0], model.user_embedding.weight[2])


def test_known_users_have_training_events():
    trained_users = torch.tensor([True, False, True])
    row, known = known_users(torch.tensor([0, 1, 2, 3, -1]), trained_users)
    assert known.tolist() == [True, False, True, False, False]
    assert row.tolist() == [0, 1, 2, 2, 0]
