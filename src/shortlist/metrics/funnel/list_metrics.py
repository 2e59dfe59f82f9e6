"""Metrics of one ranked list per user: the five columns of the experiment tables, graded NDCG, and a random ranker.

Two NDCGs have different names: `ndcg` divides by the best list of the items that are relevant, `ndcg_hits` by the best
order of the hits found.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.cascade import places
from shortlist.metrics.ranking import Formula, Relevant

Gain = Callable[[Tensor], Tensor]

GAINS: Mapping[str, Gain] = {"exponential": lambda labels: 2**labels - 1, "linear": lambda labels: labels}


def list_metrics(ranked: Tensor, relevant: Tensor, ks: Sequence[int] = (20, 50)) -> dict[str, Tensor]:
    """Values of every column at every cut, under names like "ndcg_hits@20", each [B]; NaN without relevant items.

    `ranked` [B, K] and `relevant` [B, R] hold item rows, padded with negatives.
    """
    return Relevant.of(relevant).metrics(ranked, COLUMNS, ks)


def graded_ndcg(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    k: int | None = None,
    gain: str = "exponential",
) -> Tensor:
    """NDCG of lists with graded labels [B, n] in the order of scores [B, n]; ties by column ascending [B].

    The gain is 2^label - 1 or the label itself. NaN where no label is above 0.
    """
    if gain not in GAINS:
        raise ConfigError(f"graded_ndcg: expected a gain of {' or '.join(GAINS)}, got {gain!r}")
    present = torch.ones_like(labels, dtype=torch.bool) if mask is None else mask.bool()
    gains = GAINS[gain](labels.double().masked_fill(~present, 0.0))
    dcg, best = (_dcg(gains, places(order, present), k) for order in (scores, gains))
    return dcg / best.masked_fill(best == 0, torch.nan)


def random_ranker(pool: Tensor, positives: Tensor, ks: Sequence[int] = (20, 50)) -> dict[str, Tensor]:
    """Expected value of every column for a uniformly random order of `pool` [B] items with `positives` [B] relevant."""
    if not ((positives <= pool) & (positives >= 0)).all() or not (pool >= max(ks)).all():
        raise ConfigError(
            f"random ranker: expected 0 <= positives <= pool and at least {max(ks)} items in every pool; lower K"
        )
    count = positives.double().masked_fill(positives == 0, torch.nan)
    return {f"{name}@{k}": form(pool.double(), count, k) for name, form in RANDOM.items() for k in ks}


COLUMNS = ("hit_rate", "ndcg", "ndcg_hits", "recall", "precision")
"""The columns of a table of retrieval or pre-ranking results."""


def _dcg(gains: Tensor, place: Tensor, k: int | None) -> Tensor:
    discount = 1 / torch.log2(place.double() + 1)
    return (gains * discount * (place <= (k or place.shape[1]))).sum(1)


def _hit_chances(pool: Tensor, positives: Tensor, k: int) -> Tensor:
    """Hypergeometric probability of 0..k hits in the top k [B, k + 1]."""
    hits = torch.arange(k + 1, dtype=torch.float64)
    pool, positives = pool[:, None], positives[:, None]
    logs = _log_binomial(positives, hits) + _log_binomial(pool - positives, k - hits)
    return torch.exp(logs - _log_binomial(pool, torch.full_like(hits, k)))


def _log_binomial(n: Tensor, k: Tensor) -> Tensor:
    """log C(n, k), -inf for k > n."""
    rest = (n - k).clamp(min=0)
    return (torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(rest + 1)).masked_fill(k > n, -torch.inf)


def _random_hit_rate(pool: Tensor, positives: Tensor, k: int) -> Tensor:
    return 1 - _hit_chances(pool, positives, k)[:, 0]


def _random_ndcg(pool: Tensor, positives: Tensor, k: int) -> Tensor:
    ideal = pad(_discounts(k).cumsum(0), (1, 0))
    best = ideal[positives.nan_to_num(0).clamp(max=k).long()]
    return positives / pool * _discounts(k).sum() / best


def _random_ndcg_hits(pool: Tensor, positives: Tensor, k: int) -> Tensor:
    """Given h hits every place is one with probability h / k, so the mean is h / k · Σ discounts / ideal(h)."""
    hits = torch.arange(1, k + 1, dtype=torch.float64)
    mean = hits / k * _discounts(k).sum() / _discounts(k).cumsum(0)
    return (_hit_chances(pool, positives, k)[:, 1:] * mean).sum(1)


RANDOM: Mapping[str, Formula] = {
    "hit_rate": _random_hit_rate,
    "ndcg": _random_ndcg,
    "ndcg_hits": _random_ndcg_hits,
    "recall": lambda pool, positives, k: k / pool + 0 * positives,
    "precision": lambda pool, positives, k: positives / pool,
}
"""The same columns for a random ranker, from the size of the pool and the number of relevant items in it."""


def _discounts(width: int, device: torch.device | None = None) -> Tensor:
    """1 / log2(place + 1) for places from 1 [width]."""
    return 1 / torch.log2(torch.arange(2, width + 2, dtype=torch.float64, device=device))
