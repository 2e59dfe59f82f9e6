import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.train.models.ease import MOST, EASETrainer, weights_of
from tests.train.logs import log, nothing, tastes


def test_the_weights_are_those_of_the_closed_form():
    random = np.random.default_rng(0)
    met = (random.random((50, 8)) < 0.3).astype(np.float64)
    inverse = np.linalg.inv(met.T @ met + 3.0 * np.eye(8))
    expected = np.eye(8) - inverse / np.diag(inverse)
    found = weights_of(met.T @ met, 3.0).numpy()
    assert np.allclose(found, expected, atol=1e-5)
    assert (np.diag(found) == 0).all()


def test_no_other_weights_rebuild_the_log_better():
    """Among tables with an empty diagonal, each step away costs more: squared error and ridge together."""
    random = np.random.default_rng(1)
    met = (random.random((40, 6)) < 0.4).astype(np.float64)
    best = weights_of(met.T @ met, 2.0).double().numpy()

    def cost(weights):
        return np.square(met - met @ weights).sum() + 2.0 * np.square(weights).sum()

    for _ in range(20):
        step = random.normal(size=(6, 6)) * 0.05
        np.fill_diagonal(step, 0.0)
        assert cost(best + step) > cost(best)


def test_scores_are_the_rows_of_what_was_met_once_each():
    events = tastes()
    model = EASETrainer(ridge=5.0).learn(events)
    met = events.matrix()
    weights = weights_of((met.T @ met).toarray().astype(np.float64), 5.0)
    found = model.scores(torch.tensor([[3, 7, 7, -1], [-1, -1, -1, -1]]))
    assert torch.allclose(found[0], weights[3] + weights[7], atol=1e-6)
    share = torch.from_numpy(events.popularity / len(events)).float()
    assert torch.allclose(found[1], share @ weights, atol=1e-6)
    assert (found[0].topk(8).indices < 10).all()


def test_a_catalogue_that_is_too_large_is_refused_with_what_to_do():
    events = Interactions.of(np.array([0]), np.array([MOST]))
    with pytest.raises(
        ConfigError, match=r"30,001 x 30,001 items is too large.*use item-knn.*leave out rare"
    ):
        EASETrainer().learn(events)


def test_a_ridge_that_holds_nothing_is_refused():
    with pytest.raises(ConfigError, match="ridge must lie between"):
        EASETrainer(ridge=0.0).learn(log([0, 1], n_items=2))


def test_nothing_to_learn_from_says_nothing():
    assert (EASETrainer().learn(nothing()).scores(torch.tensor([[0]])) == 0).all()


def test_blocks_change_nothing(monkeypatch):
    events = tastes()
    whole = EASETrainer(ridge=5.0).learn(events).weights
    monkeypatch.setattr("shortlist.train.models.ease.BLOCK", 3)
    assert torch.allclose(EASETrainer(ridge=5.0).learn(events).weights, whole, atol=1e-6)


def test_each_column_is_a_ridge_regression_on_all_other_items():
    met = np.random.default_rng(0).integers(0, 2, (40, 6)).astype(np.float64)
    weights = weights_of(met.T @ met, 200.0).double().numpy()
    for item in range(6):
        others = [other for other in range(6) if other != item]
        inputs = met[:, others]
        solved = np.linalg.solve(inputs.T @ inputs + 200.0 * np.eye(5), inputs.T @ met[:, item])
        assert np.allclose(weights[others, item], solved, atol=1e-6)
