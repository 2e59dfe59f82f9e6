"""Losses as pure functions on tensors."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def softmax_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean of logsumexp(logits) - logits[target] over rows: [B, N] and [B] -> scalar."""
    return F.cross_entropy(logits, target)


def sampled_softmax_loss(positive: Tensor, negatives: Tensor) -> Tensor:
    """Softmax of one positive [B] against drawn negatives [B, M] -> [B].

    Each negative must come less the log of how often it was expected among the draws, so that together they stand for
    the whole catalogue (Bengio and Senecal, 2008); -inf where a draw is no negative.
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
    """The chosen one [B] against what else was offered [B, P]: softmax within each offer -> [B].

    Collaborative competitive filtering (Yang et al., 2011): a choice says something about the offer alone.
    """
    rivals = others.masked_fill(~valid, -torch.inf)
    return torch.logsumexp(torch.cat([chosen[:, None], rivals], dim=1), dim=1) - chosen


def listwise_loss(scores: Tensor, wanted: Tensor, valid: Tensor) -> Tensor:
    """For every wanted candidate, its softmax loss against all unwanted ones of its list; mean over wanted ones.

    -log(exp(s_w) / (exp(s_w) + sum over unwanted u of exp(s_u))): wanted candidates do not compete with each other.
    scores [B, K], wanted [B, K] bool, valid [B, K] bool -> scalar; 0 when nothing is wanted.
    """
    rivals = scores.masked_fill(wanted | ~valid, -torch.inf).logsumexp(1, keepdim=True)  # [B, 1]
    losses = torch.logaddexp(scores, rivals) - scores  # [B, K]
    count = wanted.sum().clamp(min=1)
    return torch.where(wanted, losses, 0.0).sum() / count
