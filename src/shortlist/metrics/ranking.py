"""Ranking metrics: pure functions on item rows, one value per user.

`ranked` [B, K] holds item rows, best first, negative where a place is empty. `relevant` [B, R] is padded with
negatives. Both are read as sets: a repeated item counts once, at its first place, and still occupies the other places.
Every metric of a user without relevant items is NaN; means leave such users out.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.errors import ConfigError

Metric = Callable[[Tensor, Tensor, int], Tensor]  # (ranked [B, K], relevant [B, R], k) -> [B]


def precision(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """hits / k: an empty place is a miss, also where fewer than k items were returned."""
    hits, count = _hits(ranked, relevant, k)
    return hits.sum(1) / k + 0 * count


def recall(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """hits / R: the share of the relevant items that are in the top k."""
    hits, count = _hits(ranked, relevant, k)
    return hits.sum(1) / count


def list_recall(ranked: Tensor, relevant: Tensor, k: int, events: Tensor) -> Tensor:
    """hits / number of held-out events [B]: repeated events of one item all count in the denominator.

    The published code of the tree papers computes recall this way. Use it only to compare with their figures.
    """
    hits, count = _hits(ranked, relevant, k)
    return hits.sum(1) / events + 0 * count


def f1(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """2 P R / (P + R) for each user, 0 where both are 0; equal to 2 hits / (k + R)."""
    hits, count = _hits(ranked, relevant, k)
    return 2 * hits.sum(1) / (k + count)


def hit_rate(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 if any item of the top k is relevant, else 0."""
    hits, count = _hits(ranked, relevant, k)
    return hits.any(1) + 0 * count


def ndcg(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j / log2(j + 1) divided by the same sum for min(R, k) hits at the top (binary gains)."""
    hits, count = _hits(ranked, relevant, k)
    ideal = pad(_discounts(k, hits.device).cumsum(0), (1, 0))  # [k + 1] by number of hits
    best = ideal[count.nan_to_num(0).clamp(max=k).to(torch.int64)]
    return (hits * _discounts(hits.shape[1], hits.device)).sum(1) / best + 0 * count


def mrr(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 / place of the first hit in the top k, 0 without a hit."""
    hits, count = _hits(ranked, relevant, k)
    places = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return pad(hits / places, (0, 1)).amax(1) + 0 * count


def average_precision(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j · P@j / min(R, k): its mean is MAP@k; the min makes a perfect top k score 1."""
    hits, count = _hits(ranked, relevant, k)
    places = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return (hits * hits.cumsum(1) / places).sum(1) / count.clamp(max=k)


METRICS: Mapping[str, Metric] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "hit_rate": hit_rate,
    "ndcg": ndcg,
    "mrr": mrr,
    "map": average_precision,
}


def _hits(ranked: Tensor, relevant: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Which of the first k places are hits [B, min(K, k)]; the number of relevant items, NaN for none [B]."""
    if k < 1:
        raise ConfigError(f"metrics: k must be a positive integer, got {k!r}")
    if ranked.ndim != 2 or relevant.ndim != 2 or len(ranked) != len(relevant):
        shapes = f"{list(ranked.shape)} and {list(relevant.shape)}"
        raise ConfigError(
            f"metrics: expected ranked [B, K] and relevant [B, R] of the same users, got {shapes}"
        )
    shown = ranked[:, :k].contiguous()
    # One extra column of padding, so that the search works when no user has a relevant item.
    known = pad(relevant, (0, 1), value=-1).sort(dim=1).values  # [B, R + 1]
    # A binary search in each sorted row takes B (K + R) memory; comparing all pairs would take B K R.
    at = torch.searchsorted(known, shown).clamp(max=known.shape[1] - 1)
    hits = (known.gather(1, at) == shown) & _first(shown)
    distinct = known[:, 1:] != known[:, :-1]
    count = (distinct & (known[:, 1:] >= 0)).sum(1).to(torch.float64)  # [B]; the padding sorts first
    return hits.to(torch.float64), count.masked_fill(count == 0, torch.nan)


def _first(items: Tensor) -> Tensor:
    """Whether a place holds the first occurrence of its item in the row [B, K]; False for empty places."""
    ordered, order = items.sort(dim=1, stable=True)
    first = ordered >= 0
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(first).scatter_(1, order, first)


def _discounts(width: int, device: torch.device) -> Tensor:
    """1 / log2(place + 1) for places from 1 [width]."""
    return 1 / torch.log2(torch.arange(2, width + 2, dtype=torch.float64, device=device))
