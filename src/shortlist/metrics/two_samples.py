"""How far apart two samples are: histograms, distributions of a number, and a classifier that tells them apart."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from shortlist.errors import DataError

FOLDS = 5
RIDGE = 1e-3  # keeps weights finite where the samples can be told apart without error
STEPS = 30

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def jensen_shannon(a: Floats, b: Floats) -> float:
    """KL(a, m) / 2 + KL(b, m) / 2 in bits with m the mean of both histograms: 0 the same, 1 nothing in common."""
    if not a.sum() or not b.sum():
        raise DataError("jensen-shannon: expected two histograms that hold something, got an empty one")
    p, q = a / a.sum(), b / b.sum()
    middle = (p + q) / 2
    return max(0.0, (_bits(p, middle) + _bits(q, middle)) / 2)


def kolmogorov_smirnov(a: Floats, b: Floats) -> float:
    """The largest distance between the two shares of values up to some value: 0 the same, 1 nothing in common."""
    if not len(a) or not len(b):
        raise DataError("kolmogorov-smirnov: expected two samples, got an empty one")
    at = np.concatenate([a, b])
    below = [np.searchsorted(np.sort(one), at, side="right") / len(one) for one in (a, b)]
    return float(abs(below[0] - below[1]).max())


def auc(scores: Floats, yes: Bools) -> float:
    """The share of pairs (a yes, a no) in which the yes scores higher; ties count half."""
    many, few = int(yes.sum()), int((~yes).sum())
    if not many or not few:
        raise DataError("auc: expected rows of both kinds, got only one")
    return float((rankdata(scores)[yes].sum() - many * (many + 1) / 2) / (many * few))


def told_apart(features: Floats, yes: Bools, group: Ints, seed: int = 0) -> tuple[float, float]:
    """AUC and balanced accuracy of a logistic regression on rows [n, F] it did not learn from.

    Rows of one `group` are judged together by a regression that saw none of them. Both kinds weigh the same, so that
    0.5 is chance for either number, whatever the sizes.
    """
    known, fold = np.unique(group, return_inverse=True)
    fold = np.random.default_rng([seed, 3]).permutation(np.arange(len(known)) % FOLDS)[fold]
    said, areas = np.zeros(len(yes)), []
    for number in range(FOLDS):
        rest, held = fold != number, fold == number
        said[held] = _with_one(features[held]) @ _learned(features[rest], yes[rest])
        # Within a fold: what another regression says is on another scale, and a little against its own fold.
        if yes[held].any() and not yes[held].all():
            areas.append(auc(said[held], yes[held]))
    right = (np.mean(said[yes] > 0) + np.mean(said[~yes] <= 0)) / 2
    return float(np.mean(areas)) if areas else auc(said, yes), float(right)


def _bits(p: Floats, q: Floats) -> float:
    there = p > 0
    return float((p[there] * np.log2(p[there] / q[there])).sum())


def _with_one(features: Floats) -> Floats:
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


def _learned(features: Floats, yes: Bools) -> Floats:
    """Weights of a logistic regression with a small ridge, by Newton's steps; zeros when only one kind is there."""
    rows = _with_one(features)
    weights = np.zeros(rows.shape[1])
    if yes.all() or not yes.any():
        return weights
    worth = np.where(yes, 0.5 / yes.mean(), 0.5 / (~yes).mean()) / len(yes)
    for _ in range(STEPS):
        chance = 0.5 * (1 + np.tanh(rows @ weights / 2))
        slope = rows.T @ (worth * (chance - yes)) + RIDGE * weights
        curve = (rows * (worth * chance * (1 - chance))[:, None]).T @ rows + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights = weights - step * min(1.0, 10.0 / max(float(abs(step).max()), 1e-12))
        if abs(step).max() < 1e-8:
            break
    return weights
