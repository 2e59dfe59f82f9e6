"""EASE in closed form: item-item weights with an empty diagonal that rebuild the log best under a ridge."""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.data import Cases, Interactions
from shortlist.errors import ConfigError
from shortlist.progress import Progress, silent
from shortlist.represent.linear import EASE, LinearConfig
from shortlist.train.model import ModelTrainer, Watch, unwatched
from shortlist.train.ranges import check_ranges

MOST = 40_000  # items; the table of all pairs then has 6.4 GB


@dataclass(frozen=True)
class EASETrainer(ModelTrainer):
    """B = I - P / diag(P) with P = (X'X + ridge I)^-1; X'X is counted sparsely, the inverse is dense."""

    ridge: float = 500.0

    def learn(
        self,
        events: Interactions,
        valid: Cases | None = None,
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
            model.weights.copy_(weights_of(torch.from_numpy((met.T @ met).toarray()), self.ridge))
            share = np.asarray(met.sum(0)).ravel() / met.sum()
            model.usual.copy_(torch.from_numpy(share.astype(np.float32)) @ model.weights)
        return model.eval()


def weights_of(gram: torch.Tensor, ridge: float) -> torch.Tensor:
    """The weights from how often items were met together [N, N]."""
    regular = gram.double() + ridge * torch.eye(len(gram), dtype=torch.float64)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(regular))
    weights: torch.Tensor = -inverse / inverse.diagonal()
    return weights.fill_diagonal_(0.0).float()
