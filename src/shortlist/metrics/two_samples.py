"""Distances between two samples: histograms, empirical distributions, and a classifier two-sample test."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from shortlist.errors import DataError
from shortlist.metrics.logistic import logistic_regression

FOLDS = 5
RIDGE = 1e-3  # keeps the coefficients finite where the samples are separable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def jensen_shannon(a: Floats, b: Floats) -> float:
    """KL(a, m) / 2 + KL(b, m) / 2 in bits with m the mean of both histograms: 0 equal, 1 disjoint."""
    if not a.sum() or not b.sum():
        raise DataError("jensen-shannon: expected two histograms with counts, got an empty one")
    p, q = a / a.sum(), b / b.sum()
    middle = (p + q) / 2
    return max(0.0, (_kl_bits(p, middle) + _kl_bits(q, middle)) / 2)


def kolmogorov_smirnov(a: Floats, b: Floats) -> float:
    """The largest distance between the two empirical distribution functions: 0 equal, 1 disjoint."""
    if not len(a) or not len(b):
        raise DataError("kolmogorov-smirnov: expected two samples, got an empty one")
    at = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(values), at, side="right") / len(values) for values in (a, b)]
    return float(abs(below[0] - below[1]).max())


def auc(scores: Floats, positive: Bools) -> float:
    """Area under the ROC curve: the share of (positive, negative) pairs in the right order; ties count half."""
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if not positives or not negatives:
        raise DataError("auc: expected rows of both classes, got only one")
    return float(
        (rankdata(scores)[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    )


def classifier_two_sample(
    features: Floats, positive: Bools, group: Ints, seed: int = 0
) -> tuple[float, float]:
    """Cross-validated AUC and balanced accuracy of a logistic regression that separates two samples of rows [n, F].

    Rows of one `group` are in the same fold. Both classes have the same total weight, so 0.5 means that the samples
    cannot be separated, whatever their sizes.
    """
    groups, fold = np.unique(group, return_inverse=True)
    fold = np.random.default_rng([seed, 3]).permutation(np.arange(len(groups)) % FOLDS)[fold]
    logits, areas = np.zeros(len(positive)), []
    for number in range(FOLDS):
        rest, held = fold != number, fold == number
        logits[held] = _with_intercept(features[held]) @ _fitted(features[rest], positive[rest])
        # AUC within a fold: logits of different regressions are on different scales.
        if positive[held].any() and not positive[held].all():
            areas.append(auc(logits[held], positive[held]))
    accuracy = (np.mean(logits[positive] > 0) + np.mean(logits[~positive] <= 0)) / 2
    return float(np.mean(areas)) if areas else auc(logits, positive), float(accuracy)


def _kl_bits(p: Floats, q: Floats) -> float:
    support = p > 0
    return float((p[support] * np.log2(p[support] / q[support])).sum())


def _with_intercept(features: Floats) -> Floats:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def _fitted(features: Floats, positive: Bools) -> Floats:
    """Coefficients of a class-balanced logistic regression; zeros when only one class is present."""
    rows = _with_intercept(features)
    if positive.all() or not positive.any():
        return np.zeros(rows.shape[1])
    weights = np.where(positive, 0.5 / positive.mean(), 0.5 / (~positive).mean()) / len(positive)
    targets = positive.astype(np.float64)
    return logistic_regression(
        rows, targets, weights=weights, ridge=RIDGE, max_step=10.0, steps=30, tolerance=1e-8
    )
