"""MF: who was there in training brings a vector, everybody else is folded in by least squares."""

import numpy as np
import pytest
import torch

from shortlist.models.collaborative.mf import MF, MFConfig, known_users
from shortlist.testing.models import events_of
from shortlist.train.models.mf import MFTrainer

CONFIG = MFConfig(20, n_users=5, width=4, unobserved_weight=0.1, ridge=0.5)


@pytest.fixture(scope="module")
def model() -> MF:
    """Users 0, 1 and 3 were there in training."""
    torch.manual_seed(0)
    made = MF(CONFIG).eval()
    torch.nn.init.normal_(made.items.weight)
    made.finish(torch.tensor([True, True, False, True, False]))
    return made


def solved(model, history):
    """The vector that explains a history best, in float64."""
    items = model.items.weight.detach().double().numpy()
    trained_users = items[history]
    left = CONFIG.unobserved_weight * items.T @ items + trained_users.T @ trained_users + CONFIG.ridge * np.eye(4)
    return torch.from_numpy(np.linalg.solve(left, trained_users.sum(0))).float()


@torch.no_grad()
@pytest.mark.parametrize("history", [[3], [3, 1, 4], [3, 3, 1], list(range(20))])
def test_folding_in_solves_the_least_squares(model, history):
    told = model.users(torch.tensor([[-1, *history, 99]]))[0]
    assert torch.allclose(told, solved(model, history), atol=1e-5)


@torch.no_grad()
def test_what_is_solved_is_the_least_of_its_squares(model):
    """The vector minimises unmet * sum (p q)^2 over all + sum (1 - p q)^2 over met + ridge * p^2."""
    items, trained_users = model.items.weight.double(), [3, 1, 4]

    def cost(p):
        every, own = items @ p, items[trained_users] @ p
        return (
            CONFIG.unobserved_weight * every.square().sum() + (1 - own).square().sum() + CONFIG.ridge * p.square().sum()
        )

    best = model.users(torch.tensor([trained_users]))[0].double()
    for _ in range(20):
        assert cost(best) < cost(best + 0.01 * torch.randn(4, dtype=torch.float64))


@torch.no_grad()
def test_a_known_user_is_the_own_vector_whatever_the_history(model):
    known = torch.tensor([0, 1, 3])
    for history in (torch.tensor([[3, 1], [-1, 2], [-1, -1]]), torch.empty(3, 0, dtype=torch.int64)):
        assert torch.equal(model.users(history, known), model.user_embedding.weight[known])


@torch.no_grad()
@pytest.mark.parametrize("stranger", [2, 4, 5, 10**12, -1, -5])
def test_who_was_not_there_in_training_is_folded_in(model, stranger):
    history = torch.tensor([[3, 1, 4]])
    assert torch.equal(model.users(history, torch.tensor([stranger])), model.users(history))


@torch.no_grad()
def test_somebody_unknown_without_a_history_is_the_mean_of_those_who_were_there(model):
    mean_user = model.user_embedding.weight[[0, 1, 3]].mean(0)
    for history in ([], [-1, -1], [99]):
        assert torch.equal(model.users(torch.tensor([history], dtype=torch.int64))[0], mean_user)


@torch.no_grad()
def test_a_score_is_the_product_with_the_items_vector(model):
    told = model.scores(torch.tensor([[3, 1]]), torch.tensor([3]))
    assert torch.allclose(told[0], model.items.weight @ model.user_embedding.weight[3], atol=1e-6)


@torch.no_grad()
def test_a_model_of_nobody_folds_everybody_in():
    torch.manual_seed(0)
    model = MF(MFConfig(6, width=3)).eval()
    model.finish(torch.zeros(0, dtype=torch.bool))
    told = model.users(torch.tensor([[2, 3]]), torch.tensor([0]))
    assert torch.equal(told, model.users(torch.tensor([[2, 3]])))
    assert not model.users(torch.tensor([[-1]])).any()


def test_users_held_out_of_training_are_folded_in():
    events = events_of([0, 0, 2, 2], [0, 1, 1, 2], n_users=4, n_items=3)  # users 1 and 3 have no event
    model = MFTrainer(width=4, epochs=2, negatives=4, device="cpu").learn(events)
    assert model.trained_users.tolist() == [True, False, True, False]
    history = torch.tensor([[0, 1]])
    with torch.no_grad():
        assert torch.equal(model.users(history, torch.tensor([1])), model.users(history))
        assert torch.equal(model.users(history, torch.tensor([2]))[0], model.user_embedding.weight[2])


def test_who_is_known():
    trained_users = torch.tensor([True, False, True])
    row, known = known_users(torch.tensor([0, 1, 2, 3, -1]), trained_users)
    assert known.tolist() == [True, False, True, False, False]
    assert row.tolist() == [0, 1, 2, 2, 0]
