"""Ranking metrics: pure functions on item rows, one value per user.

`ranked` [B, K] holds item rows, best first, negative where a place is empty. `relevant` [B, R] is padded with
negatives. Both are read as sets: a repeated item counts once, at its first place, and still occupies the other places.
Every metric of a user without relevant items is NaN; means leave such users out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.errors import ConfigError

Metric = Callable[[Tensor, Tensor, int], Tensor]  # (ranked [B, K], relevant [B, R], k) -> [B]
Formula = Callable[[Tensor, Tensor, int], Tensor]  # (hits [B, <= k], number of relevant items [B], k) -> [B]


@dataclass(frozen=True, eq=False)
class Relevant:
    """The relevant items of users, prepared for the rankings of any number of systems."""

    items: Tensor  # [B, R + 1], sorted, the first is padding
    count: Tensor  # [B] of distinct items, NaN for none

    @classmethod
    def of(cls, relevant: Tensor) -> "Relevant":
        """The relevant items [B, R], padded with negatives."""
        # One extra column of padding, so that the search works when no user has a relevant item.
        items = pad(relevant, (0, 1), value=-1).sort(dim=1).values
        distinct = (items[:, 1:] != items[:, :-1]) & (items[:, 1:] >= 0)
        count = distinct.sum(1).to(torch.float64)  # [B]; the padding sorts first
        return cls(items, count.masked_fill(count == 0, torch.nan))

    def hits(self, ranked: Tensor, k: int) -> Tensor:
        """Which of the first k places are hits, 1 or 0 [B, min(K, k)]."""
        shown = ranked[:, :k].contiguous()
        # A binary search in each sorted row takes B (K + R) memory; comparing all pairs would take B K R.
        at = torch.searchsorted(self.items, shown).clamp(max=self.items.shape[1] - 1)
        return ((self.items.gather(1, at) == shown) & _first(shown)).to(torch.float64)

    def metrics(self, ranked: Tensor, names: Sequence[str], ks: Sequence[int]) -> dict[str, Tensor]:
        """Values of several metrics at several cuts, under names like "recall@20", each [B]."""
        _check(ranked, self.items, min(ks))
        hits = self.hits(ranked, max(ks))
        return {f"{name}@{k}": FORMULAS[name](hits[:, :k], self.count, k) for name in names for k in ks}


def precision(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """hits / k: an empty place is a miss, also where fewer than k items were returned."""
    return _precision(*_hits(ranked, relevant, k), k)


def recall(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """hits / R: the share of the relevant items that are in the top k."""
    return _recall(*_hits(ranked, relevant, k), k)


def list_recall(ranked: Tensor, relevant: Tensor, k: int, events: Tensor) -> Tensor:
    """hits / number of held-out events [B]: repeated events of one item all count in the denominator.

    The published code of the tree papers computes recall this way. Use it only to compare with their figures.
    """
    hits, count = _hits(ranked, relevant, k)
    return hits.sum(1) / events + 0 * count


def f1(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """2 P R / (P + R) for each user, 0 where both are 0; equal to 2 hits / (k + R)."""
    return _f1(*_hits(ranked, relevant, k), k)


def hit_rate(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 if any item of the top k is relevant, else 0."""
    return _hit_rate(*_hits(ranked, relevant, k), k)


def ndcg(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j / log2(j + 1) divided by the same sum for min(R, k) hits at the top (binary gains)."""
    return _ndcg(*_hits(ranked, relevant, k), k)


def ndcg_hits(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j / log2(j + 1) divided by the same sum for as many hits at the top; 0 without a hit.

    It measures only the order of the hits: one hit at place 1 gives 1, and one more hit can lower the value. Some
    published tables call it NDCG. Use it only to compare with their figures.
    """
    return _ndcg_hits(*_hits(ranked, relevant, k), k)


def mrr(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """1 / place of the first hit in the top k, 0 without a hit."""
    return _mrr(*_hits(ranked, relevant, k), k)


def average_precision(ranked: Tensor, relevant: Tensor, k: int) -> Tensor:
    """Σ hit_j · P@j / min(R, k): its mean is MAP@k; the min makes a perfect top k score 1."""
    return _average_precision(*_hits(ranked, relevant, k), k)


METRICS: Mapping[str, Metric] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "hit_rate": hit_rate,
    "ndcg": ndcg,
    "ndcg_hits": ndcg_hits,
    "mrr": mrr,
    "map": average_precision,
}


def _precision(hits: Tensor, count: Tensor, k: int) -> Tensor:
    return hits.sum(1) / k + 0 * count


def _recall(hits: Tensor, count: Tensor, k: int) -> Tensor:
    return hits.sum(1) / count


def _f1(hits: Tensor, count: Tensor, k: int) -> Tensor:
    return 2 * hits.sum(1) / (k + count)


def _hit_rate(hits: Tensor, count: Tensor, k: int) -> Tensor:
    return hits.any(1) + 0 * count


def _ndcg(hits: Tensor, count: Tensor, k: int) -> Tensor:
    ideal = pad(_discounts(k, hits.device).cumsum(0), (1, 0))  # [k + 1] by number of hits
    best = ideal[count.nan_to_num(0).clamp(max=k).to(torch.int64)]
    return (hits * _discounts(hits.shape[1], hits.device)).sum(1) / best + 0 * count


def _ndcg_hits(hits: Tensor, count: Tensor, k: int) -> Tensor:
    discounts = _discounts(hits.shape[1], hits.device)
    best = pad(discounts.cumsum(0), (1, 0))[hits.sum(1).long()]  # [B]
    return (hits * discounts).sum(1) / best.masked_fill(best == 0, 1.0) + 0 * count


def _mrr(hits: Tensor, count: Tensor, k: int) -> Tensor:
    places = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return pad(hits / places, (0, 1)).amax(1) + 0 * count


def _average_precision(hits: Tensor, count: Tensor, k: int) -> Tensor:
    places = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return (hits * hits.cumsum(1) / places).sum(1) / count.clamp(max=k)


FORMULAS: Mapping[str, Formula] = {
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "hit_rate": _hit_rate,
    "ndcg": _ndcg,
    "ndcg_hits": _ndcg_hits,
    "mrr": _mrr,
    "map": _average_precision,
}
"""The metrics of `METRICS`, from hits."""


def _hits(ranked: Tensor, relevant: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Which of the first k places are hits [B, min(K, k)]; the number of relevant items, NaN for none [B]."""
    _check(ranked, relevant, k)
    known = Relevant.of(relevant)
    return known.hits(ranked, k), known.count


def _check(ranked: Tensor, relevant: Tensor, k: int) -> None:
    if k < 1:
        raise ConfigError(f"metrics: k must be a positive integer, got {k!r}")
    if ranked.ndim != 2 or relevant.ndim != 2 or len(ranked) != len(relevant):
        shapes = f"{list(ranked.shape)} and {list(relevant.shape)}"
        raise ConfigError(
            f"metrics: expected ranked [B, K] and relevant [B, R] of the same users, got {shapes}"
        )


def _first(items: Tensor) -> Tensor:
    """Whether a place holds the first occurrence of its item in the row [B, K]; False for empty places."""
    ordered, order = items.sort(dim=1, stable=True)
    first = ordered >= 0
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(first).scatter_(1, order, first)


def _discounts(width: int, device: torch.device) -> Tensor:
    """1 / log2(place + 1) for places from 1 [width]."""
    return 1 / torch.log2(torch.arange(2, width + 2, dtype=torch.float64, device=device))
