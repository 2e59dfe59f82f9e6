"""How good a ranking is: pure functions on item rows, one number for every user.

`ranked` [B, K] holds item rows, best first, negative where a place is empty; `relevant` [B, R] is padded with
negatives. Both are read as sets: a repeat counts once, at its first place, and still takes up the others. A
user without a relevant item has no right answer: every metric is NaN there, averages leave the user out.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.errors import ConfigError

Metric = Callable[[Tensor, Tensor, int], Tensor]  # (ranked [B, K], relevant [B, R], k) -> [B]


def precision(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """hits / k: an empty place is a miss, also where fewer than k items were returned."""
    hits, truth = _judge(ranked, relevant, k)
    return hits.sum(1) / k + 0 * truth


def recall(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """hits / R: the share of all relevant items that are among the first k."""
    hits, truth = _judge(ranked, relevant, k)
    return hits.sum(1) / truth


def list_recall(ranked: Tensor, relevant: Tensor, k: int, events: Tensor) -> Tensor:
    """hits / number of events [B]: repeated events of one item all count below the line.

    The published code of the tree papers divides so; it is there to compare with its figures, not to report.
    """
    hits, truth = _judge(ranked, relevant, k)
    return hits.sum(1) / events + 0 * truth


def f1(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """2 P R / (P + R) for each user, 0 where both are 0; equal to 2 hits / (k + R)."""
    hits, truth = _judge(ranked, relevant, k)
    return 2 * hits.sum(1) / (k + truth)


def hit_rate(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 if any of the first k items is relevant, else 0."""
    hits, truth = _judge(ranked, relevant, k)
    return hits.any(1) + 0 * truth


def ndcg(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j / log2(j + 1) over the same sum with the first min(R, k) places all hits (binary gains)."""
    hits, truth = _judge(ranked, relevant, k)
    ideal = pad(_discounts(k, hits.device).cumsum(0), (1, 0))  # [k + 1] by number of hits
    best = ideal[truth.nan_to_num(0).clamp(max=k).to(torch.int64)]
    return (hits * _discounts(hits.shape[1], hits.device)).sum(1) / best + 0 * truth


def mrr(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 / place of the first hit among the first k, 0 without a hit."""
    hits, truth = _judge(ranked, relevant, k)
    places = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return pad(hits / places, (0, 1)).amax(1) + 0 * truth


def average_precision(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j · P@j / min(R, k): its mean is MAP@k; min, so that k relevant items on top make 1."""
    hits, truth = _judge(ranked, relevant, k)
    places = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return (hits * hits.cumsum(1) / places).sum(1) / truth.clamp(max=k)


METRICS: Mapping[str, Metric] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "hit_rate": hit_rate,
    "ndcg": ndcg,
    "mrr": mrr,
    "map": average_precision,
}


def _judge(ranked: Tensor, relevant: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Which of the first k places are hits [B, min(K, k)]; how many items are relevant, NaN for none [B]."""
    if k < 1:
        raise ConfigError(f"metrics: k must be a positive integer, got {k!r}")
    if ranked.ndim != 2 or relevant.ndim != 2 or len(ranked) != len(relevant):
        shapes = f"{list(ranked.shape)} and {list(relevant.shape)}"
        raise ConfigError(
            f"metrics: expected ranked [B, K] and relevant [B, R] of the same users, got {shapes}"
        )
    shown = ranked[:, :k].contiguous()
    # One empty column, so that there is something to search in even when nobody has a relevant item.
    known = pad(relevant, (0, 1), value=-1).sort(dim=1).values  # [B, R + 1]
    # A binary search in each sorted row needs B (K + R) memory; comparing all pairs would need B K R.
    at = torch.searchsorted(known, shown).clamp(max=known.shape[1] - 1)
    hits = (known.gather(1, at) == shown) & _first(shown)
    fresh = known[:, 1:] != known[:, :-1]
    truth = (fresh & (known[:, 1:] >= 0)).sum(1).to(torch.float64)  # [B] the padding comes first
    return hits.to(torch.float64), truth.masked_fill(truth == 0, torch.nan)


def _first(items: Tensor) -> Tensor:
    """Where an item is met for the first time in its row [B, K]; empty places are no items."""
    ordered, order = items.sort(dim=1, stable=True)
    fresh = ordered >= 0
    fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(fresh).scatter_(1, order, fresh)


def _discounts(width: int, device: torch.device) -> Tensor:
    """1 / log2(place + 1) for places from 1 [width]."""
    return 1 / torch.log2(torch.arange(2, width + 2, dtype=torch.float64, device=device))
