"""Soft permutation matrices (Grover et al., 2019) and two objectives on them: ARF and LCRON."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.train.objectives.lists import (
    Cap,
    check_cap,
    first_places,
    has_pair,
    mean_over,
    sizes_of,
    valid_scores,
)

EPS = 1e-6  # added to probabilities before their logarithm


def neuralsort(scores: Tensor, mask: Tensor, tau: float = 1.0) -> Tensor:
    """P_k = softmax(((n + 1 - 2k) s - A 1) / tau) with A_ij = |s_i - s_j|: row k, item v [B, L, L].

    n is the number of valid items of a list. Rows k <= n sum to 1, columns need not; rows beyond n and columns of
    padding are 0.
    """
    return (_soft_places(scores, mask, tau) * _places(mask)[:, None, :]).transpose(1, 2)


def _soft_places(scores: Tensor, mask: Tensor, tau: float) -> Tensor:
    """The transposed soft permutation, item v, row k [B, L, L], with values that mean nothing in rows beyond n."""
    clean = valid_scores(scores, mask)
    spread = _spread(clean, mask)
    low = torch.finfo(scores.dtype).min / 4  # padding has probability 0
    place = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    slope = (mask.sum(1, keepdim=True) + 1 - 2 * place).to(scores.dtype) / tau  # [B, L]
    offset = torch.where(mask, -spread / tau, low)
    return (clean[:, :, None] * slope[:, None, :] + offset[:, :, None]).softmax(1)


def _spread(scores: Tensor, mask: Tensor) -> Tensor:
    """The sum of |s_i - s_j| over valid items j [B, L]; the signs are constants, which saves most of the backward."""
    with torch.no_grad():
        sign = (scores[:, :, None] - scores[:, None, :]).sign_() * mask.to(scores.dtype)[:, None, :]
    return scores * sign.sum(2) - torch.bmm(sign, scores[:, :, None]).squeeze(2)


def _places(mask: Tensor) -> Tensor:
    """True for the first n rows, n the number of valid items [B, L]."""
    return torch.arange(mask.shape[1], device=mask.device) < mask.sum(1, keepdim=True)


@dataclass(frozen=True, eq=False)
class Inclusion:
    """The soft probability of each item to be in the top of one stage, and to be below it [B, L]."""

    top: Tensor
    below: Tensor  # from the other rows of the permutation, so that it has its own gradient


def inclusion(scores: Tensor, mask: Tensor, cap: Cap, tau: float = 1.0) -> Inclusion:
    """pi(v) = sum of P_kv over rows k <= cap / sum over all rows, the divisor without gradient."""
    check_cap(cap)
    rows, high = _places(mask), first_places(mask, cap)
    parts = torch.stack([rows & high, rows & ~high], 2).to(scores.dtype)  # [B, L, 2]
    sums = torch.bmm(_soft_places(scores, mask, tau), parts)
    total = sums.detach().sum(2, keepdim=True)
    return Inclusion(*(sums / total.masked_fill(total == 0, 1.0)).unbind(2))


def lcron(
    scores: Sequence[Tensor],
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    caps: Sequence[Cap],
    log_a: Tensor | None = None,
    tau: float = 1.0,
    relevant_from: float = 1.0,
) -> Tensor:
    """LCRON: L_e2e + sum_i L_i / (2 a_i^2) + log a_i over the stages i of a cascade [B].

    `log_a` [stages] is learned; None is 0, a = 1. A list without a pair of a relevant and another item has loss 0.
    """
    e2e, own = lcron_terms(scores, labels, mask, weight, caps=caps, tau=tau, relevant_from=relevant_from)
    log_a = own.new_zeros(own.shape[1]) if log_a is None else log_a.to(own.dtype)
    total = e2e + (own * torch.exp(-2 * log_a) / 2 + log_a).sum(1)
    return torch.where(has_pair(labels >= relevant_from, mask), total, 0.0)


def lcron_terms(
    scores: Sequence[Tensor],
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    caps: Sequence[Cap],
    tau: float = 1.0,
    relevant_from: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """L_e2e [B], cross-entropy of the product of the stages' pi, and L_i [B, stages], of each stage's pi."""
    if len(scores) != len(caps):
        raise ConfigError(f"one capacity per stage: got {len(scores)} stages and {len(caps)} capacities")
    relevant = labels >= relevant_from
    stages = [inclusion(one, mask, cap, tau) for one, cap in zip(scores, caps, strict=True)]
    joint = reduce(mul, (one.top for one in stages))
    e2e = mean_over(_cross_entropy(joint, 1 - joint, relevant), mask, weight)
    own = [mean_over(_cross_entropy(one.top, one.below, relevant), mask, weight) for one in stages]
    return e2e, torch.stack(own, 1)


def arf(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    cap: Cap,
    log_a: Tensor | None = None,
    tau: float = 1.0,
    relevant_from: float = 1.0,
) -> Tensor:
    """ARF: L_relax + L_global / (2 a^2) + log a [B]; `log_a` is learned, None is 0.

    A list without a pair of a relevant and another item has loss 0.
    """
    relax, whole = arf_terms(scores, labels, mask, weight, cap=cap, tau=tau, relevant_from=relevant_from)
    log_a = relax.new_zeros(()) if log_a is None else log_a.to(relax.dtype)
    total = relax + whole * torch.exp(-2 * log_a) / 2 + log_a
    return torch.where(has_pair(labels >= relevant_from, mask), total, 0.0)


def arf_terms(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    cap: Cap,
    tau: float = 1.0,
    relevant_from: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """L_relax [B], -mean of y_v log(mean of P_kv over k <= cap), and L_global [B], -mean of Phat_kv log P_kv."""
    soft = neuralsort(scores, mask, tau)
    rows = torch.minimum(mask.sum(1, keepdim=True).clamp(min=1), sizes_of(cap, mask))
    high = first_places(mask, cap).to(soft.dtype)
    top = torch.bmm(high[:, None, :], soft).squeeze(1) / rows
    relax = mean_over(-(top + EPS).log() * (labels >= relevant_from), mask, weight)
    cells = mask.sum(1) * mask.sum(1) if weight is None else mask.sum(1) * (weight * mask).sum(1)
    hard = label_permutation(labels, mask, scores.dtype)
    hard = hard if weight is None else hard * weight.to(scores.dtype)[:, None, :]
    return relax, -((soft + EPS).log() * hard).sum((1, 2)) / cells.clamp(min=1e-12)


@torch.no_grad()
def label_permutation(labels: Tensor, mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The permutation that sorts by descending label: row k, item v [B, L, L]; g equal labels share g rows evenly."""
    values = labels.to(dtype).masked_fill(~mask, -torch.inf)
    above = (values[:, None, :] > values[:, :, None]).sum(2)  # [B, L]
    equal = (values[:, None, :] == values[:, :, None]).sum(2)
    place = torch.arange(1, labels.shape[1] + 1, device=labels.device)[None, :, None]
    inside = (place > above[:, None, :]) & (place <= (above + equal)[:, None, :]) & mask[:, None, :]
    return inside / equal[:, None, :].to(dtype)


def _cross_entropy(top: Tensor, below: Tensor, relevant: Tensor) -> Tensor:
    """-y log(pi) - (1 - y) log(1 - pi) of every item [B, L]."""
    return -(torch.where(relevant, top, below) + EPS).log()
