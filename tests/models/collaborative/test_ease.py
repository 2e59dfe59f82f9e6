"""EASE: weights in closed form, and scores that are sums of rows."""

import numpy as np
import pytest
import torch

from shortlist.models.collaborative.ease import EASE, EASEConfig
from shortlist.testing.models import events_of
from shortlist.train.models.counting.ease import EASETrainer


@pytest.fixture(scope="module")
def log():
    random = np.random.default_rng(0)
    users = np.sort(random.integers(0, 30, 300))
    items = random.integers(0, 12, 300) ** 2 % 12
    return events_of(users, items, n_users=30, n_items=13)  # item 12 has no events


@pytest.fixture(scope="module")
def model() -> EASE:
    made = EASE(EASEConfig(5)).eval()
    made.weights.copy_(torch.arange(25.0).view(5, 5))
    made.default_scores.copy_(torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0]))
    return made


def closed_form(events, ridge):
    """Steck (2019), algorithm 1, in float64."""
    matrix = np.zeros((events.n_users, events.n_items))
    matrix[events.users, events.items] = 1.0
    inverse = np.linalg.inv(matrix.T @ matrix + ridge * np.eye(events.n_items))
    weights = inverse / -np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    return weights


@pytest.mark.parametrize("ridge", [0.5, 20.0, 500.0])
def test_the_weights_equal_the_closed_form(log, ridge):
    trained = EASETrainer(ridge=ridge).learn(log)
    assert np.allclose(trained.weights.numpy(), closed_form(log, ridge), rtol=1e-5, atol=1e-7)
    assert not trained.weights.diagonal().any()
    assert not trained.weights[12].any()


def test_weights_minimise_the_regularised_squared_error(log):
    """No other weights with an empty diagonal have a smaller |X - X B|^2 + ridge |B|^2."""
    matrix = log.matrix().toarray().astype(np.float64)

    def loss(weights):
        return ((matrix - matrix @ weights) ** 2).sum() + 20.0 * (weights**2).sum()

    best = EASETrainer(ridge=20.0).learn(log).weights.double().numpy()
    random = np.random.default_rng(1)
    for _ in range(20):
        step = 1e-2 * random.standard_normal(best.shape)
        np.fill_diagonal(step, 0.0)
        assert loss(best) < loss(best + step)


def test_scores_are_the_sum_of_the_rows_of_history_items(model):
    scores = model.scores(torch.tensor([[-1, 0, 3], [2, 99, -1]]))
    assert scores.tolist() == [[15.0, 17.0, 19.0, 21.0, 23.0], [10.0, 11.0, 12.0, 13.0, 14.0]]


def test_repeated_items_count_once_and_order_does_not_matter(model):
    once = model.scores(torch.tensor([[0, 3]]))
    assert torch.equal(model.scores(torch.tensor([[3, 0]])), once)
    assert torch.equal(model.scores(torch.tensor([[3, 0, 0, 3, 3]])), once)


def test_empty_history_gets_the_popularity_weighted_mean_row(model, log):
    for history in ([], [-1], [99, -1]):
        assert torch.equal(model.scores(torch.tensor([history], dtype=torch.int64))[0], model.default_scores)
    trained = EASETrainer(ridge=20.0).learn(log)
    matrix = log.matrix().toarray()
    expected = matrix.sum(0) / matrix.sum() @ closed_form(log, 20.0)
    assert np.allclose(trained.default_scores.numpy(), expected, atol=1e-6)


def test_scores_equal_the_product_of_a_multi_hot_matrix_and_the_weights():
    torch.manual_seed(0)
    model = EASE(EASEConfig(60)).eval()
    model.weights.data = torch.randn(60, 60)
    history = torch.randint(-1, 62, (30, 40))  # with repeats, padding and unknown items
    expected = torch.zeros(30, 60)
    for row, items in enumerate(history.tolist()):
        expected[row, sorted({item for item in items if 0 <= item < 60})] = 1.0
    scores = model.scores(history)
    assert torch.allclose(scores, expected @ model.weights, atol=1e-4)
    alone = torch.cat([model.scores(history[row : row + 1]) for row in range(30)])
    assert torch.equal(alone, scores)
