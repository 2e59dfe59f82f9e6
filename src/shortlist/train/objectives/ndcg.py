"""Weights of pairs by what they mean for NDCG: LambdaRank (Burges, 2010) and LambdaLoss (Wang et al., 2018)."""

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.train.objectives.lists import ranks

GAINS = ("exp", "linear")
KINDS = ("loss2", "loss2++", "mixed")


def gains(labels: Tensor, mask: Tensor, gain: str, dtype: torch.dtype) -> Tensor:
    """2^z - 1 or z of every valid item, 0 at padding [B, L]."""
    if gain not in GAINS:
        raise ConfigError(f"gain must be one of {', '.join(GAINS)}, got {gain!r}")
    values = torch.where(mask, labels, 0).to(dtype)
    return torch.exp2(values) - 1 if gain == "exp" else values


def discount(rank: Tensor, truncation: int, dtype: torch.dtype) -> Tensor:
    """1 / log2(1 + rank), 0 beyond the truncation; truncation 0 keeps all ranks."""
    values = 1 / torch.log2(rank.to(dtype) + 1)
    return values.masked_fill(rank > truncation, 0.0) if truncation else values


def ideal_dcg(gain: Tensor, truncation: int) -> Tensor:
    """The largest DCG of each list [B]."""
    place = torch.arange(1, gain.shape[1] + 1, device=gain.device)
    return (gain.sort(1, descending=True).values * discount(place, truncation, gain.dtype)).sum(1)


@torch.no_grad()
def lambdarank_weights(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    gain: str = "exp",
    truncation: int = 0,
    ids: Tensor | None = None,
) -> Tensor:
    """|delta NDCG| of swapping i and j in the current ranking [B, L, L], without gradient."""
    gained = _gain_gaps(gains(labels, mask, gain, scores.dtype), truncation)
    return gained * _gaps(discount(ranks(scores, mask, ids), truncation, scores.dtype))


@torch.no_grad()
def loss2_weights(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    gain: str = "exp",
    truncation: int = 0,
    ids: Tensor | None = None,
) -> Tensor:
    """|G_i - G_j| / IDCG * |D(d) - D(d + 1)|, d the distance of the two ranks [B, L, L], without gradient.

    With a truncation, pairs with both ranks beyond it have weight 0.
    """
    gained = _gain_gaps(gains(labels, mask, gain, scores.dtype), truncation)
    return gained * _distance_weights(ranks(scores, mask, ids), truncation, scores.dtype)


@torch.no_grad()
def lambdaloss_weights(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    kind: str = "loss2++",
    mu: float = 10.0,
    share: float = 0.8,
    gain: str = "exp",
    truncation: int = 0,
    ids: Tensor | None = None,
) -> Tensor:
    """Loss2, Loss2++ = mu * Loss2 + LambdaRank, or mixed = (1 - share) * Loss2 + share * LambdaRank [B, L, L].

    `mixed` divides by the ideal DCG of the whole list; the other kinds truncate it like the discounts.
    """
    if kind not in KINDS:
        raise ConfigError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
    gained = _gain_gaps(
        gains(labels, mask, gain, scores.dtype), 0 if kind == "mixed" else truncation
    )  # [B, L, L]
    rank = ranks(scores, mask, ids)
    near = _distance_weights(rank, truncation, scores.dtype)
    if kind == "loss2":
        return gained * near
    swap = _gaps(discount(rank, truncation, scores.dtype))
    return gained * (mu * near + swap if kind == "loss2++" else (1 - share) * near + share * swap)


def _gain_gaps(gain: Tensor, truncation: int) -> Tensor:
    """|G_i - G_j| / IDCG [B, L, L], 0 in lists without any gain."""
    ideal = ideal_dcg(gain, truncation)[:, None]
    return _gaps(gain / ideal.masked_fill(ideal == 0, 1.0))


def _gaps(values: Tensor) -> Tensor:
    return (values[:, :, None] - values[:, None, :]).abs()


def _distance_weights(rank: Tensor, truncation: int, dtype: torch.dtype) -> Tensor:
    """|D(d) - D(d + 1)| of the distance d of two ranks [B, L, L]; 0 on the diagonal."""
    length = rank.shape[1]
    steps = discount(torch.arange(1, length + 1, device=rank.device), 0, dtype)  # D(1), ..., D(L)
    table = torch.cat([steps.new_zeros(1), steps[:-1] - steps[1:]])[:length]
    weights = table[(rank[:, :, None] - rank[:, None, :]).abs()]
    if not truncation:
        return weights
    inside = rank <= truncation
    return weights * (inside[:, :, None] | inside[:, None, :])
