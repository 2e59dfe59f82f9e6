"""EASE: the textbook's weights, and scores that are sums of rows."""

import numpy as np
import pytest
import torch

from shortlist.models.collaborative.ease import EASE, EASEConfig
from shortlist.testing.models import events_of
from shortlist.train.models.ease import EASETrainer


@pytest.fixture(scope="module")
def log():
    random = np.random.default_rng(0)
    users = np.sort(random.integers(0, 30, 300))
    items = random.integers(0, 12, 300) ** 2 % 12
    return events_of(users, items, n_users=30, n_items=13)  # nobody met item 12


@pytest.fixture(scope="module")
def model() -> EASE:
    made = EASE(EASEConfig(5)).eval()
    made.weights.copy_(torch.arange(25.0).view(5, 5))
    made.default_scores.copy_(torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0]))
    return made


def textbook(events, ridge):
    """Steck (2019), algorithm 1, in float64."""
    met = np.zeros((events.n_users, events.n_items))
    met[events.users, events.items] = 1.0
    inverse = np.linalg.inv(met.T @ met + ridge * np.eye(events.n_items))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


@pytest.mark.parametrize("ridge", [0.5, 20.0, 500.0])
def test_the_weights_are_those_of_the_textbook(log, ridge):
    learned = EASETrainer(ridge=ridge).learn(log)
    assert np.allclose(learned.weights.numpy(), textbook(log, ridge), rtol=1e-5, atol=1e-7)
    assert not learned.weights.diagonal().any()
    assert not learned.weights[12].any()


def test_the_weights_rebuild_the_log_best_under_the_ridge(log):
    """No other table with an empty diagonal has less of |X - X B|^2 + ridge |B|^2."""
    met = log.matrix().toarray().astype(np.float64)

    def cost(weights):
        return ((met - met @ weights) ** 2).sum() + 20.0 * (weights**2).sum()

    best = EASETrainer(ridge=20.0).learn(log).weights.double().numpy()
    random = np.random.default_rng(1)
    for _ in range(20):
        step = 1e-2 * random.standard_normal(best.shape)
        np.fill_diagonal(step, 0.0)
        assert cost(best) < cost(best + step)


def test_scores_are_the_sum_of_the_met_items_rows(model):
    told = model.scores(torch.tensor([[-1, 0, 3], [2, 99, -1]]))
    assert told.tolist() == [[15.0, 17.0, 19.0, 21.0, 23.0], [10.0, 11.0, 12.0, 13.0, 14.0]]


def test_what_is_met_twice_counts_once_and_the_order_does_not_matter(model):
    one = model.scores(torch.tensor([[0, 3]]))
    assert torch.equal(model.scores(torch.tensor([[3, 0]])), one)
    assert torch.equal(model.scores(torch.tensor([[3, 0, 0, 3, 3]])), one)


def test_without_a_history_the_answer_is_what_anybody_might_take(model, log):
    for history in ([], [-1], [99, -1]):
        assert torch.equal(model.scores(torch.tensor([history], dtype=torch.int64))[0], model.default_scores)
    learned = EASETrainer(ridge=20.0).learn(log)
    met = log.matrix().toarray()
    expected = met.sum(0) / met.sum() @ textbook(log, 20.0)
    assert np.allclose(learned.default_scores.numpy(), expected, atol=1e-6)


def test_the_bag_has_a_one_for_every_item_met(model):
    assert model.multi_hot(torch.tensor([[4, -1, 4, 0], [-1, -1, -1, -1]])).tolist() == [[1, 0, 0, 0, 1], [0] * 5]
