"""Pairwise objectives over all pairs (i, j) of a list with label i > label j; one loss per list [B].

A list without such a pair has loss 0 and no gradient. Weights of items [B, L] multiply the losses of their pairs.
"""

import torch
from torch import Tensor

from shortlist.train.loop.losses import bpr_loss
from shortlist.train.objectives.lists import preferred, reduce_pairs, valid_scores
from shortlist.train.objectives.ndcg import lambdaloss_weights, lambdarank_weights


def ranknet(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    sigma: float = 1.0,
    reduction: str = "sum",
) -> Tensor:
    """softplus(-sigma * (s_i - s_j)) over pairs (Burges et al., 2005)."""
    pairs = preferred(labels, mask)
    return reduce_pairs(_logistic(scores, mask, sigma), pairs, weight, reduction)


def lambdarank(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    sigma: float = 1.0,
    gain: str = "exp",
    truncation: int = 0,
    reduction: str = "sum",
    ids: Tensor | None = None,
) -> Tensor:
    """RankNet, each pair times the change of NDCG if its items were swapped (Burges, 2010)."""
    swaps = lambdarank_weights(scores, labels, mask, gain, truncation, ids)
    losses = _logistic(scores, mask, sigma)
    return reduce_pairs(losses, preferred(labels, mask), weight, reduction, swaps)


def lambdaloss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    kind: str = "loss2++",
    mu: float = 10.0,
    share: float = 0.8,
    sigma: float = 1.0,
    gain: str = "exp",
    truncation: int = 0,
    reduction: str = "sum",
    ids: Tensor | None = None,
) -> Tensor:
    """RankNet with the pair weights of NDCG-Loss2, NDCG-Loss2++ or their mixture (Wang et al., 2018)."""
    weights = lambdaloss_weights(scores, labels, mask, kind, mu, share, gain, truncation, ids)
    losses = _logistic(scores, mask, sigma)
    return reduce_pairs(losses, preferred(labels, mask), weight, reduction, weights)


def margin(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    margin: float = 0.5,
    ndcg_weights: bool = False,
    gain: str = "exp",
    reduction: str = "sum",
    ids: Tensor | None = None,
) -> Tensor:
    """max(0, margin - (s_i - s_j)) over pairs, optionally times the weights of LambdaRank."""
    clean = valid_scores(scores, mask)
    losses = torch.relu(margin - (clean[:, :, None] - clean[:, None, :]))
    swaps = lambdarank_weights(scores, labels, mask, gain, ids=ids) if ndcg_weights else None
    return reduce_pairs(losses, preferred(labels, mask), weight, reduction, swaps)


def bpr(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    relevant_from: float = 1.0,
) -> Tensor:
    """The mean of softplus(-(s_+ - s_-)) over relevant and other items (Rendle et al., 2009).

    Items with a label of at least `relevant_from` are relevant.
    """
    return ranknet(scores, labels >= relevant_from, mask, weight, reduction="mean")


def _logistic(scores: Tensor, mask: Tensor, sigma: float) -> Tensor:
    """The logistic loss of ranking item i below item j [B, L, L]."""
    scaled = sigma * valid_scores(scores, mask)
    return bpr_loss(scaled[:, :, None], scaled[:, None, :])
