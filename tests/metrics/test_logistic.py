import numpy as np
import pytest
from scipy.optimize import minimize

from shortlist.metrics.logistic import logistic_regression


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.normal(size=(n, 2)), np.ones(n)])
    probability = 1 / (1 + np.exp(-features @ np.array([1.5, -0.5, 0.3])))
    return features, (rng.random(n) < probability).astype(float), rng.random(n) + 0.5


def loss(at, features, targets, offset, weights, ridge):
    logits = features @ at + offset
    return (weights * (np.logaddexp(0, logits) - targets * logits)).sum() + ridge / 2 * at @ at


@pytest.mark.parametrize("ridge", [0.0, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_coefficients_minimise_the_penalised_cross_entropy(ridge, weighted):
    features, targets, weights = sample()
    weights = weights if weighted else np.ones(len(targets))
    offset = 0.4 * features[:, 0] ** 2
    found = logistic_regression(features, targets, offset, weights=weights, ridge=ridge)
    best = minimize(loss, np.zeros(3), (features, targets, offset, weights, ridge), tol=1e-12)
    assert found == pytest.approx(best.x, abs=1e-4)
    gradient = (
        features.T @ (weights * (1 / (1 + np.exp(-features @ found - offset)) - targets)) + ridge * found
    )
    assert gradient == pytest.approx(np.zeros(3), abs=1e-7)


def test_intercept_alone_gives_the_log_odds_of_the_mean_target():
    targets = np.array([0.9, 0.2, 0.4])
    (found,) = logistic_regression(np.ones((3, 1)), targets)
    assert found == pytest.approx(np.log(0.5 / 0.5), abs=1e-12)


def test_ridge_keeps_coefficients_finite_on_separable_data():
    targets = np.repeat([0.0, 1.0], 20)
    (slope,) = logistic_regression((targets - 0.5)[:, None], targets, ridge=1e-3, max_step=10.0)
    assert 0 < slope < 100
