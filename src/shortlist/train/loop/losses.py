"""Losses as pure functions on tensors."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def softmax_loss(logits: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Mean of logsumexp(logits) - logits[target] over rows, each times its weight: [B, N], [B], [B] -> scalar."""
    if weights is None:
        return F.cross_entropy(logits, target)
    return weighted_mean(F.cross_entropy(logits, target, reduction="none"), weights)


def weighted_mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of losses, each times the weight of its event; those of weight 0 are left out, None: all are 1."""
    if weights is None:
        return losses.mean()
    return (losses * weights).sum() / (weights > 0).sum().clamp(min=1)


def sampled_softmax_loss(positive: Tensor, negatives: Tensor) -> Tensor:
    """Softmax of one positive [B] against sampled negatives [B, M] -> [B].

    The log of its expected count in the sample must be subtracted from each negative, so that the sample stands for
    the whole catalogue (Bengio and Senecal, 2008); -inf where a sampled item is no negative.
    """
    others = torch.logsumexp(negatives, dim=1)
    return torch.logaddexp(positive, others) - positive


def binary_loss(positive: Tensor, negatives: Tensor, valid: Tensor) -> Tensor:
    """-log sigmoid(positive) - mean over negatives of log(1 - sigmoid) : [B], [B, M], [B, M] bool -> [B]."""
    wrong = (F.softplus(negatives) * valid).sum(1) / valid.sum(1).clamp(min=1)
    return F.softplus(-positive) + wrong


def bpr_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """-log sigmoid(positive - negative), pair by pair (Rendle et al., 2009)."""
    return F.softplus(negative - positive)


def offer_loss(chosen: Tensor, others: Tensor, valid: Tensor) -> Tensor:
    """Softmax of the chosen item [B] against the other offered items [B, P] -> [B].

    Collaborative competitive filtering (Yang et al., 2011): a choice is compared with its own offer only.
    """
    others = others.masked_fill(~valid, -torch.inf)
    return torch.logsumexp(torch.cat([chosen[:, None], others], dim=1), dim=1) - chosen


def target_losses(scores: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """-log(exp(s_t) / (exp(s_t) + sum over non-targets n of exp(s_n))): targets do not compete with each other.

    scores [B, K], target [B, K] bool, valid [B, K] bool -> [B, K]; only the losses at targets mean something.
    """
    others = scores.masked_fill(target | ~valid, -torch.inf).logsumexp(1, keepdim=True)  # [B, 1]
    return torch.logaddexp(scores, others) - scores


def listwise_loss(scores: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Softmax loss of every target against the non-targets of its list, mean over targets; 0 without any target.

    scores [B, K], target [B, K] bool, valid [B, K] bool -> scalar.
    """
    losses = target_losses(scores, target, valid)
    return torch.where(target, losses, 0.0).sum() / target.sum().clamp(min=1)
