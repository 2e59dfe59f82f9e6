"""Lists of a mixture: the best items over the whole catalogue, by the mixture or by what its nominators nominate."""

import torch
from torch import Tensor

from shortlist.errors import ConfigError, did_you_mean
from shortlist.models.mixture.pool_mixture import PoolMixture

MODES = ("mixture", "nominate", "pool")


@torch.no_grad()
def nominate(
    model: PoolMixture, contexts: Tensor, k: int, mode: str = "mixture", limit: int | None = None
) -> tuple[Tensor, Tensor]:
    """Items and scores [B, L], best first, -1 and -inf where a list has ended.

    `mixture`: the k best by the mixture mean. `nominate`: of each nominator the k best by weight times prediction, a
    negative prediction counting as 0; all of them by the mixture mean. `pool`: of each nominator the k best of its
    pool by prediction; all of them by prediction. `limit` is the largest length of the joined list.
    """
    if mode not in MODES:
        raise ConfigError(f"list: expected {', '.join(MODES)}, got {mode!r}{did_you_mean(mode, MODES)}")
    if k < 1:
        raise ConfigError(f"list: expected k of at least 1, got {k}")
    if mode == "mixture":
        return _best(model.mixture_scores(contexts), k if limit is None else min(k, limit))
    weights = model.gate.all(contexts).exp()  # [B, A, N]
    predictions = model.linked(model.experts.all(contexts))
    length = min(k * model.n_experts, model.n_items)
    length = length if limit is None else min(length, limit)
    if mode == "pool":
        own = predictions.masked_fill(weights == 0, -torch.inf)
        return _best(own.masked_fill(~_nominated(own, k), -torch.inf).amax(2), length)
    weighted = (weights * predictions.clamp(min=0)).masked_fill(weights == 0, -torch.inf)
    mean = (weights * predictions).sum(2)
    return _best(mean.masked_fill(~_nominated(weighted, k).any(2), -torch.inf), length)


def _nominated(scores: Tensor, k: int) -> Tensor:
    """Whether an item is among the k best of a nominator [B, A, N]; -inf is never."""
    best = scores.topk(min(k, scores.shape[1]), dim=1)
    marked = torch.zeros_like(scores, dtype=torch.bool).scatter(1, best.indices, True)
    return marked & (scores > -torch.inf)


def _best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, items = scores.sort(dim=1, descending=True, stable=True)
    values, items = values[:, :k], items[:, :k]
    return items.masked_fill(values == -torch.inf, -1), values
