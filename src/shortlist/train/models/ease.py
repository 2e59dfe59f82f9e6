"""EASE in closed form: item-item weights with an empty diagonal that rebuild the log best under a ridge."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack

from shortlist.data import HeldOut, Interactions
from shortlist.errors import ConfigError, ShortlistError
from shortlist.models.collaborative.ease import EASE, LinearConfig
from shortlist.progress import Progress, silent
from shortlist.train.loop.ranges import check_ranges
from shortlist.train.models.trainer import ModelTrainer, Watch, unwatched

MOST = 30_000  # items: 15 bytes for every pair while it is made, 4 in the end; 13.5 GB
BLOCK = 1024  # items whose pairs are counted at a time


@dataclass(frozen=True)
class EASETrainer(ModelTrainer):
    """B = I - P / diag(P) with P = (X'X + ridge I)^-1; X'X is counted sparsely, the inverse is dense."""

    ridge: float = 250.0

    def learn(
        self,
        events: Interactions,
        valid: HeldOut | None = None,
        seed: int = 0,
        progress: Progress = silent,
        watch: Watch = unwatched,
    ) -> EASE:
        check_ranges(vars(self))
        if events.n_items > MOST:
            raise ConfigError(
                f"ease: a table of {events.n_items:,} x {events.n_items:,} items is too large, at most {MOST:,}; "
                "use item-knn, which keeps the best neighbours alone, or leave out rare items"
            )
        model = EASE(LinearConfig(events.n_items))
        if len(events):
            met = events.matrix()
            model.weights.data = weights_of(_together(met), self.ridge)
            share = np.asarray(met.sum(0)).ravel() / met.sum()
            model.usual.copy_(torch.from_numpy(share.astype(np.float32)) @ model.weights)
        return model.eval()


def _together(met: sparse.csr_matrix) -> NDArray[np.float64]:
    """How many users met both of two items [N, N], block by block: all pairs at once are no longer few."""
    whole = np.zeros((met.shape[1], met.shape[1]))
    columns = met.tocsc()
    for start in range(0, met.shape[1], BLOCK):
        whole[start : start + BLOCK] = (columns[:, start : start + BLOCK].T @ met).toarray()
    return whole


def weights_of(gram: NDArray[np.float64], ridge: float) -> torch.Tensor:
    """The weights from how often items were met together [N, N], which is written over."""
    gram.flat[:: len(gram) + 1] += ridge
    # The matrix is its own transpose, and the transpose of rows is columns, as LAPACK wants them: nothing is copied.
    factor, wrong = lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
    inverse, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if wrong or failed:
        raise ShortlistError(f"ease: the table of items has no inverse with a ridge of {ridge:g}; raise it")
    weights = torch.empty((len(gram), len(gram)))
    scale = -1.0 / np.diagonal(inverse)
    for start in range(0, len(gram), BLOCK):
        rows = slice(start, start + BLOCK)
        # Below the diagonal stands the inverse, above it what is left of the matrix: both halves are read from below.
        whole = np.tril(inverse[rows], start)
        whole[:, start:] += np.tril(inverse[start:, rows], -1).T
        weights[rows] = torch.from_numpy(whole * scale)
    return weights.fill_diagonal_(0.0)
