"""The closed form of EASE: item-item weights with an empty diagonal under a ridge penalty."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.errors import ConfigError, ShortlistError
from shortlist.models.collaborative.ease import EASE
from shortlist.progress import Progress, silent
from shortlist.settings import setting
from shortlist.train.context import TrainContext
from shortlist.train.models.trainer import ModelTrainer, OnValidation, no_callback

MAX_ITEMS = 30_000  # 13.5 GB in training
TRAINING_BYTES = 15  # of every pair of items
ADVICE = (
    "use item-knn, which stores few neighbours, or leave out rare items with data prepare --min-item-events"
)
BLOCK = 1024  # items whose pairs are counted at a time
SAFE_CONDITION = (
    10_000  # of X'X + ridge I: up to it float32 is accurate to about 1e-4 of a weight, at half the cost
)


@dataclass(frozen=True)
class EASETrainer(ModelTrainer):
    """B = I - P / diag(P) with P = (X'X + ridge I)^-1; X'X is computed sparsely, the inverse is dense.

    X holds 1 for each pair of user and item, or the largest weight of its events.
    """

    uses_weights: ClassVar[bool | None] = True
    counts_only: ClassVar[bool] = True  # a closed form of counts

    model: type[Any] = field(default=EASE, kw_only=True)
    ridge: float = setting(250.0, "L2 regularisation.", least=1e-9, most=1e12)

    memory_advice: ClassVar[str] = ADVICE

    def check_data(self, settings: Mapping[str, Any], context: TrainContext) -> None:
        super().check_data(settings, context)
        _check_items(context.events.n_items)

    def memory(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of all pairs of items in training."""
        return TRAINING_BYTES * events.n_items**2

    def size(self, events: Interactions, catalog: Catalog | None) -> int:
        """Bytes of the weights."""
        return 4 * events.n_items**2

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        on_validation: OnValidation = no_callback,
        catalog: Catalog | None = None,
    ) -> EASE:
        _check_items(events.n_items)
        model = EASE(self.config_for(events))
        if len(events):
            matrix = events.weighted_matrix()
            counts = _co_occurrences(matrix, precision_for(matrix, self.ridge))
            model.weights.data = weights_of(counts, self.ridge)
            share = np.asarray(matrix.sum(0)).ravel() / matrix.sum()
            model.default_scores.copy_(torch.from_numpy(share.astype(np.float32)) @ model.weights)
        return model.eval()


def _check_items(count: int) -> None:
    if count > MAX_ITEMS:
        raise ConfigError(
            f"ease: {count:,} x {count:,} weights are too many, at most {MAX_ITEMS:,} items; {ADVICE}"
        )


def precision_for(matrix: sparse.csr_matrix, ridge: float) -> type[np.floating[Any]]:
    """float32 if the condition of X'X + ridge I is small: its largest eigenvalue is at most its largest row sum."""
    largest = float((matrix.T @ (matrix @ np.ones(matrix.shape[1]))).max())
    return np.float32 if 1 + largest / ridge <= SAFE_CONDITION else np.float64


def _co_occurrences(
    matrix: sparse.csr_matrix, precision: type[np.floating[Any]] = np.float64
) -> NDArray[Any]:
    """X'X [N, N], in blocks, because the sparse product of all pairs is large."""
    counts = np.zeros((matrix.shape[1], matrix.shape[1]), precision)
    columns = matrix.tocsc()
    for start in range(0, matrix.shape[1], BLOCK):
        counts[start : start + BLOCK] = (columns[:, start : start + BLOCK].T @ matrix).toarray()
    return counts


def weights_of(gram: NDArray[Any], ridge: float) -> torch.Tensor:
    """The weights from co-occurrence counts [N, N], which are overwritten; computed in their precision."""
    gram.flat[:: len(gram) + 1] += ridge
    factorise, invert = lapack.get_lapack_funcs(("potrf", "potri"), (gram,))
    # The matrix is symmetric, so its transpose is what LAPACK expects in column order: nothing is copied.
    factor, not_positive = factorise(gram.T, lower=1, overwrite_a=1)
    inverse, singular = invert(factor, lower=1, overwrite_c=1)
    if not_positive or singular:
        raise ShortlistError(f"ease: X'X + ridge I has no inverse with ridge = {ridge:g}; raise ridge")
    weights = torch.empty((len(gram), len(gram)))
    scale = -1.0 / np.diagonal(inverse)
    for start in range(0, len(gram), BLOCK):
        rows = slice(start, start + BLOCK)
        # LAPACK fills only the lower triangle of the inverse: both halves are read from there.
        whole = np.tril(inverse[rows], start)
        whole[:, start:] += np.tril(inverse[start:, rows], -1).T
        weights[rows] = torch.from_numpy(whole * scale)
    return weights.fill_diagonal_(0.0)
