"""How good a model is on cases to choose by: what early stopping listens to."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError
from shortlist.index.exact import without
from shortlist.models.model import Model

BATCH = 512  # cases at a time, fewer where their scores would be more than CELLS
CELLS = 1 << 26
WORDS = ("recall", "ndcg")


def judge_of(
    model: Model, valid: HeldOut | None, seed: int, metric: str = "recall@20", most: int = 1000
) -> Callable[[], float] | None:
    """A judge of a model by `recall@k` or `ndcg@k` on up to `most` cases, what a case has seen left out.

    None without any case.
    """
    word, k = parsed(metric)
    if valid is None or not len(valid):
        return None
    cases = valid.take(np.random.default_rng(seed).permutation(len(valid))[:most])
    device = model.device
    size = max(min(BATCH, CELLS // max(model.config.n_items, 1)), 1)
    parts = [cases.take(slice(start, start + size)) for start in range(0, len(cases), size)]
    asked = [
        (part.query(width=max(int(part.history_lengths().max()), 1)).to(device), part.relevant().to(device))
        for part in parts
    ]

    @torch.no_grad()
    def judge() -> float:
        told = [
            _values(word, without(model.scores(query.history, query.user), query.history), truth, k)
            for query, truth in asked
        ]
        return float(torch.cat(told).mean())

    return judge


def parsed(metric: str) -> tuple[str, int]:
    """The word and the cut of a metric that can be judged by."""
    word, _, cut = metric.partition("@")
    if word not in WORDS or not cut.isdecimal() or int(cut) < 1:
        raise ConfigError(f"early_stop_metric must be recall@k or ndcg@k, got {metric!r}")
    return word, int(cut)


def _values(word: str, scores: Tensor, truth: Tensor, k: int) -> Tensor:
    k = min(k, scores.shape[1])
    best, rows = scores.topk(k, dim=1)
    hits = is_in(rows, truth) & (best > -torch.inf)  # [C, k], what is left out fills up a short list in vain
    count = (truth >= 0).sum(1).clamp(min=1)
    if word == "recall":
        return hits.sum(1) / count
    worth = 1.0 / torch.log2(torch.arange(2, k + 2, device=scores.device, dtype=torch.float32))
    return (hits * worth).sum(1) / worth.cumsum(0)[count.clamp(max=k) - 1]
