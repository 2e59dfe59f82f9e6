"""Softmax and cross-entropy objectives on dense lists; one loss per list [B]."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.train.loop.losses import target_losses
from shortlist.train.objectives.lists import has_pair, mean_over, valid_scores


def soft_label(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    label_temperature: float = 0.0,
) -> Tensor:
    """-sum q_i log softmax(s)_i with q = z / sum z, or q = softmax(z / label_temperature) if that is above 0.

    A weight of n counts an item n times, among the targets and in the sum of the softmax.
    """
    active = has_pair(labels, mask)
    keep = mask & active[:, None]
    shift = _log_weights(weight, scores)
    target = _soft_targets(torch.where(keep, labels, 0).to(scores.dtype), keep, shift, label_temperature)
    logits = (valid_scores(scores, keep) + shift).masked_fill(~keep & active[:, None], -torch.inf)
    losses = torch.logsumexp(logits, 1, keepdim=True) - valid_scores(scores, keep)
    return torch.where(keep, target * losses, 0.0).sum(1)


def ssm(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    relevant_from: float = 1.0,
) -> Tensor:
    """Sampled softmax: cross-entropy of a relevant item among itself and the others, mean over relevant items.

    Weights of other items multiply their terms of the softmax; weights of relevant items multiply their losses.
    """
    relevant = (labels >= relevant_from) & mask
    active = (relevant.any(1) & (mask & ~relevant).any(1))[:, None]
    clean = valid_scores(scores, mask)
    shifted = torch.where(relevant, clean, clean + _log_weights(weight, scores))
    losses = target_losses(shifted, relevant & active, mask)
    return mean_over(losses, relevant & active, weight)


def bce(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    relevant_from: float = 1.0,
) -> Tensor:
    """Binary cross-entropy of sigmoid(s) and the relevance of each item, mean over items.

    A pointwise loss: lists with one kind of items count; only a list without items has loss 0.
    """
    relevant = (labels >= relevant_from).to(scores.dtype)
    clean = valid_scores(scores, mask)
    losses = F.binary_cross_entropy_with_logits(clean, relevant, reduction="none")
    return mean_over(losses, mask, weight)


def _soft_targets(labels: Tensor, keep: Tensor, shift: Tensor, temperature: float) -> Tensor:
    """Target probabilities of the items of each list, in proportion to their labels [B, L]."""
    logits = labels / temperature if temperature else labels.log()
    return torch.softmax((logits + shift).masked_fill(~keep, torch.finfo(labels.dtype).min), 1)


def _log_weights(weight: Tensor | None, scores: Tensor) -> Tensor:
    """What weights add to logits [B, L]; 0 where all weigh the same."""
    return scores.new_zeros(()) if weight is None else weight.to(scores.dtype).log()
