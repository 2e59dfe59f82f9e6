"""Log loss and calibration of predicted probabilities, from weighted rows."""

from dataclasses import dataclass

import numpy as np

from shortlist.errors import DataError
from shortlist.metrics.funnel.pair_counts import Bools, Floats, sums
from shortlist.metrics.logistic import logistic_regression

BINS = 10
CLIP = 1e-7  # keeps the log loss of a sure and wrong prediction finite


@dataclass(frozen=True)
class Bin:
    """Rows with neighbouring predictions."""

    predicted: float
    observed: float
    weight: float


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed rates: 0 bias and error, intercept 0 and slope 1 are perfect."""

    log_loss: float
    predicted: float  # mean
    observed: float
    expected_error: float  # mean over bins of |predicted - observed|, by weight
    intercept: float  # of the logistic regression of the outcome on the predicted logit
    slope: float
    bins: tuple[Bin, ...]

    @property
    def bias(self) -> float:
        """Mean prediction minus observed rate."""
        return self.predicted - self.observed


def log_loss(probability: Floats, positive: Bools, weight: Floats) -> float:
    """Weighted mean of -log of the probability of what happened, clipped at 1e-7."""
    right = np.where(positive, probability, 1 - probability)
    return float(np.average(-np.log(np.clip(right, CLIP, 1.0)), weights=weight))


def calibration(probability: Floats, positive: Bools, weight: Floats, bins: int = BINS) -> Calibration:
    """Calibration over `bins` groups of equal weight by prediction; equal predictions are in one group."""
    if not len(probability) or not ((probability >= 0) & (probability <= 1)).all():
        raise DataError(
            "calibration: expected probabilities in [0, 1], got none or other values; apply a sigmoid"
        )
    groups = _bins(probability, positive, weight, bins)
    share = np.array([one.weight for one in groups]) / weight.sum()
    errors = np.array([abs(one.predicted - one.observed) for one in groups])
    predicted, observed = (float(np.average(values, weights=weight)) for values in (probability, positive))
    intercept, slope = _line(probability, positive, weight)
    loss, error = log_loss(probability, positive, weight), float((share * errors).sum())
    return Calibration(loss, predicted, observed, error, intercept, slope, groups)


def _bins(probability: Floats, positive: Bools, weight: Floats, bins: int) -> tuple[Bin, ...]:
    """Groups of rows by the weighted quantile of their prediction."""
    at = np.unique(probability, return_inverse=True)[1]
    own = sums(at, weight)
    middle = (np.cumsum(own) - own / 2) / own.sum()
    group = np.minimum((middle * bins).astype(np.int64), bins - 1)[at]
    weights = sums(group, weight, bins)
    totals = [sums(group, weight * column, bins) for column in (probability, positive)]
    return tuple(
        Bin(float(p / w), float(y / w), float(w)) for p, y, w in zip(*totals, weights, strict=True) if w > 0
    )


def _line(probability: Floats, positive: Bools, weight: Floats) -> tuple[float, float]:
    """Intercept and slope of the outcome on the predicted logit; NaN where one class is missing."""
    if positive.all() or not positive.any():
        return float("nan"), float("nan")
    clipped = np.clip(probability, CLIP, 1 - CLIP)
    rows = np.stack([np.ones(len(clipped)), np.log(clipped) - np.log1p(-clipped)], axis=1)
    intercept, slope = logistic_regression(rows, positive.astype(np.float64), weights=weight / weight.mean())
    return float(intercept), float(slope)
