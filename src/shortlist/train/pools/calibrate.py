"""Calibration of the scores of a frozen expert, fitted on a held-out slice."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.models.mixture import Calibration

METHODS = ("affine", "isotonic")
Floats = NDArray[np.float64]


def calibrate(scores: Tensor, rewards: Tensor, method: str = "affine") -> Calibration:
    """The outcome as a function of the score, from held-out examples [n]; NaN where the nominator gives no score.

    `affine` is least squares, `isotonic` pools adjacent violators, with lines between the centres of the pools. Without
    a score the outcome is the mean of such examples, or that of all where none lacks one. A constant score predicts the
    mean outcome.
    """
    if method not in METHODS:
        raise ConfigError(f"calibrate: expected {' or '.join(METHODS)}, got {method!r}")
    every, outcomes = _arrays(scores, rewards)
    known = np.isfinite(every)
    absent = float(outcomes[~known].mean() if (~known).any() else outcomes.mean())
    if not known.any():
        return Calibration((0.0,), (absent,), 0.0, absent)
    fit = _affine if method == "affine" else _isotonic
    knots, values, slope = fit(every[known], outcomes[known])
    return Calibration(tuple(knots.tolist()), tuple(values.tolist()), slope, absent)


def _affine(scores: Floats, rewards: Floats) -> tuple[Floats, Floats, float]:
    centre, mean = scores.mean(), rewards.mean()
    spread = float(((scores - centre) ** 2).sum())
    constant = spread <= 1e-12 * len(scores) * max(float(centre**2), 1e-300)
    slope = 0.0 if constant else float(((scores - centre) * (rewards - mean)).sum()) / spread
    return np.array([centre]), np.array([mean]), slope


def _isotonic(scores: Floats, rewards: Floats) -> tuple[Floats, Floats, float]:
    values, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    mean = np.bincount(place, weights=rewards, minlength=len(values)) / count
    fitted = isotonic_regression(mean, weights=count).x
    heights, pool = np.unique(fitted, return_inverse=True)
    centres = np.bincount(pool, weights=values * count) / np.bincount(pool, weights=count)
    return centres, heights, 0.0


def _arrays(scores: Tensor, rewards: Tensor) -> tuple[Floats, Floats]:
    every, outcomes = (one.detach().cpu().double().numpy() for one in (scores, rewards))
    if every.shape != outcomes.shape or every.ndim != 1 or not len(every):
        raise DataError(
            f"calibrate: expected a score and a reward of each example, got {every.shape} and {outcomes.shape}"
        )
    if not np.isfinite(outcomes).all():
        raise DataError(
            f"calibrate: rewards must be finite numbers, got {int((~np.isfinite(outcomes)).sum())} others"
        )
    return every, outcomes
