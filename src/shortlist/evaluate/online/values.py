"""Metrics of evaluated events: one column of values for each kind of ranks and each metric."""

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.evaluate.online.ranks import OnlineRanks

KINDS = ("raw", "excl", "sampled", "expected")  # of ranks; the first one is the primary one

Floats = NDArray[np.float64]


def metric_names(k: int) -> tuple[str, str]:
    """Names of the metrics of one kind of ranks."""
    return "mrr", f"recall@{k}"


def event_values(ranks: OnlineRanks, k: int) -> dict[str, Floats]:
    """Reciprocal rank and recall@k of every event [n, 2] by kind of ranks; NaN where no negatives were drawn.

    A rank is credited by recall@k if it is at most k: half ranks of ties are rounded up.
    """
    if k < 1:
        raise ConfigError(f"online metrics: expected k from 1, got {k}")
    values = {kind: _of(getattr(ranks, kind), k) for kind in KINDS[:3]}
    return values | {"expected": np.stack(ranks.expected(k), axis=1)}


def _of(rank: Floats, k: int) -> Floats:
    recall = np.where(np.isnan(rank), np.nan, rank <= k)
    return np.stack([1 / rank, recall], axis=1)
