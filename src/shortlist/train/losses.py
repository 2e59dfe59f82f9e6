"""Losses as pure functions on tensors."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


def softmax_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Mean of logsumexp(logits) - logits[target] over rows: [B, N] and [B] -> scalar."""
    return F.cross_entropy(logits, target)


def sampled_softmax_loss(positive: Tensor, negatives: Tensor, n_items: int) -> Tensor:
    """Softmax over one positive [B] and uniformly drawn negatives [B, M], corrected to the whole catalogue.

    The M draws stand for n_items - 1 others, so each is lifted by log((n_items - 1) / M) (Bengio and Senecal, 2008).
    """
    lift = torch.log(torch.tensor((n_items - 1) / max(negatives.shape[1], 1)))
    others = torch.logsumexp(negatives + lift, dim=1)
    return (torch.logaddexp(positive, others) - positive).mean()


def listwise_loss(scores: Tensor, wanted: Tensor, valid: Tensor) -> Tensor:
    """For every wanted candidate, its softmax loss against all unwanted ones of its list; mean over wanted ones.

    -log(exp(s_w) / (exp(s_w) + sum over unwanted u of exp(s_u))): wanted candidates do not compete with each other.
    scores [B, K], wanted [B, K] bool, valid [B, K] bool -> scalar; 0 when nothing is wanted.
    """
    rivals = scores.masked_fill(wanted | ~valid, -torch.inf).logsumexp(1, keepdim=True)  # [B, 1]
    losses = torch.logaddexp(scores, rivals) - scores  # [B, K]
    count = wanted.sum().clamp(min=1)
    return torch.where(wanted, losses, 0.0).sum() / count
