"""Logistic regression by Newton's method: the one implementation of the package."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

JITTER = 1e-9  # least diagonal of the Hessian that is added, so that it can be inverted


def logistic_regression(
    features: Floats,
    targets: Floats,
    offset: Floats | float = 0.0,
    *,
    weights: Floats | None = None,
    ridge: float = 0.0,
    max_step: float = 2.0,
    steps: int = 50,
    tolerance: float = 1e-12,
) -> Floats:
    """Coefficients [F] that minimise the weighted cross-entropy plus ridge / 2 * squared norm.

    `features` are [n, F] (add a column of ones for an intercept), `targets` [n] lie in [0, 1], `weights` [n] default to
    1, `offset` is added to the logits. A Newton step is shortened so that no coefficient moves by more than `max_step`.
    """
    weights = np.ones(len(features)) if weights is None else weights
    coefficients = np.zeros(features.shape[1])
    for _ in range(steps):
        step = _newton_step(features, targets, offset, weights, ridge, coefficients)
        largest = float(abs(step).max())
        coefficients = coefficients - step * min(1.0, max_step / max(largest, 1e-12))
        if largest < tolerance:
            break
    return coefficients


def _newton_step(
    features: Floats, targets: Floats, offset: Floats | float, weights: Floats, ridge: float, at: Floats
) -> Floats:
    probability = 0.5 * (1 + np.tanh((features @ at + offset) / 2))
    gradient = features.T @ (weights * (probability - targets)) + ridge * at
    curvature = (features * (weights * probability * (1 - probability))[:, None]).T @ features
    return np.asarray(np.linalg.solve(curvature + max(ridge, JITTER) * np.eye(len(at)), gradient), np.float64)
