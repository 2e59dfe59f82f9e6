from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.train.models.counting.ease import (
    MAX_ITEMS,
    SAFE_CONDITION,
    EASETrainer,
    _co_occurrences,
    precision_for,
    weights_of,
)
from tests.train.logs import log, nothing, tastes


def test_weights_equal_the_closed_form():
    random = np.random.default_rng(0)
    matrix = (random.random((50, 8)) < 0.3).astype(np.float64)
    inverse = np.linalg.inv(matrix.T @ matrix + 3.0 * np.eye(8))
    expected = np.eye(8) - inverse / np.diag(inverse)
    found = weights_of(matrix.T @ matrix, 3.0).numpy()
    assert np.allclose(found, expected, atol=1e-5)
    assert (np.diag(found) == 0).all()


def test_weights_minimise_the_regularised_squared_error():
    """Among weights with an empty diagonal, every random step away has a larger loss."""
    random = np.random.default_rng(1)
    matrix = (random.random((40, 6)) < 0.4).astype(np.float64)
    best = weights_of(matrix.T @ matrix, 2.0).double().numpy()

    def loss(weights):
        return np.square(matrix - matrix @ weights).sum() + 2.0 * np.square(weights).sum()

    for _ in range(20):
        step = random.normal(size=(6, 6)) * 0.05
        np.fill_diagonal(step, 0.0)
        assert loss(best + step) > loss(best)


def test_scores_are_the_sum_of_the_rows_of_distinct_history_items():
    events = tastes()
    model = EASETrainer(ridge=5.0).learn(events)
    matrix = events.matrix()
    weights = weights_of((matrix.T @ matrix).toarray().astype(np.float64), 5.0)
    found = model.scores(torch.tensor([[3, 7, 7, -1], [-1, -1, -1, -1]]))
    assert torch.allclose(found[0], weights[3] + weights[7], atol=1e-6)
    share = torch.from_numpy(events.popularity / len(events)).float()
    assert torch.allclose(found[1], share @ weights, atol=1e-6)
    assert (found[0].topk(8).indices < 10).all()


def test_too_large_catalogue_is_refused_with_advice():
    events = Interactions.of(np.array([0]), np.array([MAX_ITEMS]))
    with pytest.raises(
        ConfigError, match=r"30,001 x 30,001 weights are too many.*use item-knn.*leave out rare"
    ):
        EASETrainer().learn(events)


def test_ridge_of_zero_is_refused():
    with pytest.raises(ConfigError, match="ridge must lie between"):
        EASETrainer(ridge=0.0).learn(log([0, 1], n_items=2))


def test_model_trained_on_no_events_scores_zero():
    assert (EASETrainer().learn(nothing()).scores(torch.tensor([[0]])) == 0).all()


def test_block_size_does_not_change_the_weights(monkeypatch):
    events = tastes()
    whole = EASETrainer(ridge=5.0).learn(events).weights
    monkeypatch.setattr("shortlist.train.models.counting.ease.BLOCK", 3)
    assert torch.allclose(EASETrainer(ridge=5.0).learn(events).weights, whole, atol=1e-6)


def test_each_column_is_a_ridge_regression_on_all_other_items():
    matrix = np.random.default_rng(0).integers(0, 2, (40, 6)).astype(np.float64)
    weights = weights_of(matrix.T @ matrix, 200.0).double().numpy()
    for item in range(6):
        others = [other for other in range(6) if other != item]
        inputs = matrix[:, others]
        solved = np.linalg.solve(inputs.T @ inputs + 200.0 * np.eye(5), inputs.T @ matrix[:, item])
        assert np.allclose(weights[others, item], solved, atol=1e-6)


def test_matrix_holds_the_largest_weight_of_each_pair():
    random = np.random.default_rng(2)
    events = replace(tastes(), weights=random.integers(1, 6, len(tastes())).astype(np.float32))
    dense = np.zeros((events.n_users, events.n_items))
    for user, item, weight in zip(events.users, events.items, events.weights, strict=True):
        dense[user, item] = max(dense[user, item], weight / events.weights.mean())
    expected = weights_of(dense.T @ dense, 5.0)
    model = EASETrainer(ridge=5.0).learn(events)
    assert torch.allclose(model.weights, expected, atol=1e-5)
    share = torch.from_numpy(dense.sum(0) / dense.sum()).float()
    assert torch.allclose(model.default_scores, share @ expected, atol=1e-5)


@pytest.mark.parametrize("ridge", [0.01, 1.0, 250.0])
def test_float32_is_used_for_a_small_condition_and_is_as_good_as_float64(ridge):
    random = np.random.default_rng(0)
    events = log(*(random.choice(40, 9, replace=False) for _ in range(120)), n_items=40)
    matrix = events.weighted_matrix()
    exact = weights_of(_co_occurrences(matrix), ridge)
    values = np.linalg.eigvalsh(_co_occurrences(matrix) + ridge * np.eye(40))
    precision = precision_for(matrix, ridge)
    assert precision is np.float64 or values[-1] / values[0] <= SAFE_CONDITION
    assert (precision is np.float32) == (ridge >= 1)
    assert torch.allclose(weights_of(_co_occurrences(matrix, precision), ridge), exact, atol=1e-4)
