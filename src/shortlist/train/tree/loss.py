"""Losses over the nodes of each level, as pure functions on logits [U, L, C] with the positive in column 0.

`valid` [U, L, C] marks the columns that hold a node; all others are ignored, with a gradient of exactly zero. `weight`
[U, L] multiplies the loss of a level (rectified labels). `reduction` is over levels: sum, mean or max, then the mean
over users; none returns [U, L].
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError


def sampled_softmax(
    logits: Tensor, logw: Tensor, valid: Tensor, weight: Tensor | None = None, reduction: str = "sum"
) -> Tensor:
    """logsumexp(o - logw) - o_positive per level, with logw = 0 for the positive (DTR, eq. 21)."""
    adjusted = (_precise(logits) - logw).masked_fill(~valid, -torch.inf)
    return _reduce(adjusted.logsumexp(2) - adjusted[..., 0], weight, reduction)


def level_softmax(
    logits: Tensor, valid: Tensor, weight: Tensor | None = None, reduction: str = "sum"
) -> Tensor:
    """logsumexp(o) - o_positive in nats over the valid columns without correction (DTR, eq. 18)."""
    held = _precise(logits).masked_fill(~valid, -torch.inf)
    return _reduce(held.logsumexp(2) - held[..., 0], weight, reduction)


def binary(
    logits: Tensor,
    valid: Tensor,
    label: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "sum",
) -> Tensor:
    """Binary cross-entropy of every node, summed over a level (TDM, eq. 8 of DTR).

    The positive's label is `label` [U, L], by default 1; the label of all others is 0.
    """
    logits = _precise(logits)
    costs = F.softplus(logits).masked_fill(~valid, 0.0).sum(2)  # [U, L]
    gains = logits[..., 0] if label is None else logits[..., 0] * label
    return _reduce(costs - gains, weight, reduction)


def margin(
    logits: Tensor,
    valid: Tensor,
    weight: Tensor | None = None,
    phi: str = "hinge",
    gamma: float = 1.0,
    reduction: str = "sum",
) -> Tensor:
    """phi(f_v - max of the others): hinge max(0, 1 - t), ramp min(1, max(0, 1 - t / gamma)), logistic log2(1 + e^-t).

    A level without another node has loss 0. With sampled negatives it is a heuristic: the maximum is biased low.
    """
    logits = _precise(logits)
    others = logits.masked_fill(~valid | _first(valid), -torch.inf).amax(2)
    return _reduce(surrogate(logits[..., 0] - others, phi, gamma), weight, reduction)


def top_k_hinge(
    logits: Tensor,
    valid: Tensor,
    weight: Tensor | None = None,
    k: int = 1,
    self_cost: bool = False,
    reduction: str = "sum",
) -> Tensor:
    """max(0, mean of the K' largest of cost_u + f_u - f_v), K' = min(k, nodes): the positive competes too.

    cost_u is 1, and 0 for the positive itself unless `self_cost`, as printed in the two-stage paper.
    With sampled negatives it is a heuristic: the largest are biased low.
    """
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")
    cost = 1.0 if self_cost else (~_first(valid)).float()
    logits = _precise(logits)
    excess = (cost + logits - logits[..., :1]).masked_fill(~valid, -torch.inf)
    top = excess.topk(min(k, excess.shape[2]), dim=2).values  # [U, L, K]
    exists = top > -torch.inf
    total = torch.where(exists, top, 0.0).sum(2)
    return _reduce(F.relu(total / exists.sum(2)), weight, reduction)


def surrogate(t: Tensor, phi: str = "hinge", gamma: float = 1.0) -> Tensor:
    """Surrogate loss of a margin t, at least 1 where t is negative: hinge, ramp or logistic as in `margin`."""
    if phi == "hinge":
        return F.relu(1 - t)
    if phi == "ramp":
        return (1 - t / gamma).clamp(0.0, 1.0)
    if phi == "logistic":
        return F.softplus(-t) / math.log(2.0)
    raise ConfigError(f"phi must be hinge, ramp or logistic, got {phi!r}")


def _precise(logits: Tensor) -> Tensor:
    """At least float32: half precision loses small differences of logits."""
    return logits if logits.dtype == torch.float64 else logits.float()


def _first(valid: Tensor) -> Tensor:
    """True in column 0 only: bool [C]."""
    return torch.arange(valid.shape[2], device=valid.device) == 0


def _reduce(losses: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Losses [U, L] -> a scalar, or themselves."""
    losses = losses if weight is None else losses * weight
    if reduction == "sum":
        return losses.sum(1).mean()
    if reduction == "mean":
        return losses.mean()
    if reduction == "max":
        return losses.amax(1).mean()
    if reduction == "none":
        return losses
    raise ConfigError(f"reduction must be sum, mean, max or none, got {reduction!r}")
