"""Off-policy estimates from logged outcomes with known probabilities of being shown."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError

CAP = 10.0  # largest importance weight

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OffPolicyEstimate:
    """The mean outcome under another policy, and how many equally weighted examples it is worth."""

    estimate: float  # NaN where the policy would show none of the logged items
    effective: float
    examples: int


def effective_size(weights: NDArray[np.floating]) -> float:
    """(sum w)^2 / sum w^2: the number of equally weighted examples with the same variance, 0 without any."""
    squares = float(np.square(weights, dtype=np.float64).sum())
    return float(weights.sum(dtype=np.float64)) ** 2 / squares if squares else 0.0


def importance_weights(
    target: NDArray[np.floating], logged: NDArray[np.floating], cap: float = CAP
) -> Floats:
    """min(cap, target / logged) from the probability of each shown item under both policies [n]."""
    if not cap > 0:
        raise ConfigError(f"importance weights: expected a cap above 0, got {cap}")
    wrong = ~((logged > 0) & (logged <= 1))
    if wrong.any():
        raise ConfigError(
            f"importance weights: expected logged probabilities above 0 and at most 1, got {logged[wrong][0]} and "
            f"{int(wrong.sum()) - 1} others; log the probabilities of the policy that showed the items"
        )
    if not ((target >= 0) & (target <= 1)).all():
        raise ConfigError("importance weights: expected probabilities from 0 to 1 under the new policy")
    found: Floats = np.minimum(np.asarray(target, np.float64) / np.asarray(logged, np.float64), cap)
    return found


def capped_snips(
    outcome: NDArray[np.floating],
    target: NDArray[np.floating],
    logged: NDArray[np.floating],
    cap: float = CAP,
) -> OffPolicyEstimate:
    """Self-normalised importance sampling: sum w r / sum w (Swaminathan and Joachims, 2015).

    The cap biases the estimate towards what the logged policy shows, and bounds its variance.
    """
    weights = importance_weights(target, logged, cap)
    total = float(weights.sum())
    estimate = float(weights @ np.asarray(outcome, np.float64)) / total if total else float("nan")
    return OffPolicyEstimate(estimate, effective_size(weights), len(weights))
