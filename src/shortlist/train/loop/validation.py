"""The validation metric that early stopping uses."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Query
from shortlist.errors import ConfigError
from shortlist.index.exact import mask_rows
from shortlist.metrics.ranking import METRICS
from shortlist.models.model import Model

BATCH = 512  # users at a time, fewer where their scores would be more than CELLS
CELLS = 1 << 26
ALLOWED = ("recall", "ndcg")
LIKELIHOOD = "likelihood"  # a metric without a cut-off
REPEATS = "+repeats"  # after a metric: items of the history are candidates too


def validation_metric(
    model: Model,
    valid: HeldOut | None,
    seed: int,
    metric: str = "recall@20",
    users: int = 1000,
    history: int | None = None,
) -> Callable[[], float] | None:
    """A function that computes `recall@k` or `ndcg@k` on up to `users` random validation users, without seen items.

    Only the last `history` items of a user are given and count as seen, all of them by default; with `+repeats` after
    the metric none counts as seen. None without any user. `likelihood` is the geometric mean of the probabilities of
    relevant items, in a softmax over all items.
    """
    name, k = parse_metric(metric)
    if valid is None or not len(valid):
        return None
    chosen = valid.take(np.random.default_rng(seed).permutation(len(valid))[:users])
    device = model.device
    size = max(min(BATCH, CELLS // max(model.config.n_items, 1)), 1)
    parts = [chosen.take(slice(start, start + size)) for start in range(0, len(chosen), size)]
    hidden = 0 if metric.endswith(REPEATS) else None
    requests = [
        (
            part.query(width=history or max(int(part.history_lengths().max()), 1)).to(device),
            part.relevant().to(device),
        )
        for part in parts
    ]

    @torch.no_grad()
    def validate() -> float:
        if metric == LIKELIHOOD:
            return _likelihood(model, requests)
        values = [
            _values(
                name,
                mask_rows(model.scores(query.history, query.user), query.history[:, :hidden]),
                relevant,
                k,
            )
            for query, relevant in requests
        ]
        return float(torch.cat(values).nanmean())

    return validate


def parse_metric(metric: str) -> tuple[str, int]:
    """Name and cut-off of an early-stopping metric, with or without repeats; `likelihood` has none, which is 0."""
    if metric == LIKELIHOOD:
        return metric, 0
    name, _, cut = metric.removesuffix(REPEATS).partition("@")
    if name not in ALLOWED or not cut.isdecimal() or int(cut) < 1:
        raise ConfigError(f"early_stop_metric must be recall@k or ndcg@k, got {metric!r}")
    return name, int(cut)


def _likelihood(model: Model, requests: Sequence[tuple[Query, Tensor]]) -> float:
    """exp of the mean log probability of the relevant items of all requests."""
    total, count = 0.0, 0
    for query, relevant in requests:
        log_p = model.scores(query.history, query.user).log_softmax(1).gather(1, relevant.clamp(min=0))
        total += float(log_p.masked_fill(relevant < 0, 0.0).double().sum())
        count += int((relevant >= 0).sum())
    return math.exp(total / max(count, 1))


def _values(name: str, scores: Tensor, relevant: Tensor, k: int) -> Tensor:
    best, rows = scores.topk(min(k, scores.shape[1]), dim=1)
    return METRICS[name](rows.masked_fill(best == -torch.inf, -1), relevant, k)
