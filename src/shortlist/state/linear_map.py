"""A linear map from the user vectors of one version to those of another, for users who are not replayed yet."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEAST_CORRELATION = 0.95  # of scores of users who are not in the fit; below it a map is not used
HELD_OUT = 5  # every fifth user
ITEMS = 2000  # that scores are compared on


@dataclass(frozen=True, eq=False)
class LinearMap:
    """new = old @ matrix + shift."""

    matrix: Floats  # [D, D']
    shift: Floats  # [D']
    correlation: float  # mean over held-out users of that between mapped and true scores; NaN without users
    held_out: int

    @property
    def allowed(self) -> bool:
        """Whether held-out scores are close enough; False where there were too few users to say."""
        return self.correlation >= LEAST_CORRELATION

    def __call__(self, vectors: Floats) -> Floats:
        """User vectors [U, D'] of the new version from those of the old one [U, D]."""
        return vectors @ self.matrix + self.shift


def fitted_map(old: Floats, new: Floats, items: Floats, ridge: float) -> LinearMap:
    """The map by ridge regression on four fifths of the users [U, D] and [U, D'], tried on the others.

    `items` [N, D'] are the item vectors of the new version.
    """
    tried = np.arange(len(old)) % HELD_OUT == HELD_OUT - 1
    x, y = old[~tried], new[~tried]
    if not len(x):
        return LinearMap(np.zeros((old.shape[1], new.shape[1])), np.zeros(new.shape[1]), float("nan"), 0)
    centre, target = x.mean(0), y.mean(0)
    given = x - centre
    size = ridge * max(float((given * given).sum()) / given.shape[1], 1e-12)
    matrix = np.linalg.solve(given.T @ given + size * np.eye(given.shape[1]), given.T @ (y - target))
    found = LinearMap(matrix, target - centre @ matrix, float("nan"), int(tried.sum()))
    if not tried.any():
        return found
    some = items[np.linspace(0, len(items) - 1, min(ITEMS, len(items))).astype(np.int64)]
    correlation = _correlation(found(old[tried]) @ some.T, new[tried] @ some.T)
    return LinearMap(matrix, found.shift, correlation, found.held_out)


def _correlation(one: Floats, other: Floats) -> float:
    """The mean over rows of the correlation of scores."""
    one, other = (scores - scores.mean(1, keepdims=True) for scores in (one, other))
    size = np.sqrt((one * one).sum(1) * (other * other).sum(1))
    return float(np.mean((one * other).sum(1) / np.maximum(size, 1e-300)))
