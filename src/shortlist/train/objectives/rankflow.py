"""RankFlow: a stage follows the scores of the stage after it."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.train.loop.losses import bpr_loss
from shortlist.train.objectives.lists import mean_over, ranks, valid_scores


def rankflow(
    student: Tensor,
    teacher: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    k: int,
    alpha: float = 0.5,
    ids: Tensor | None = None,
) -> Tensor:
    """alpha * (top-k term) + (1 - alpha) * MSE(student, teacher) [B]; add it to the stage's own loss.

    The top-k term is -log sigmoid(mean score of the teacher's top k - mean score of the rest), 0 in a list without
    a rest. alpha = 1 is the reading of the full-stage paper, alpha = 0 that of the public LCRON code.
    """
    top = ranks(teacher, mask, ids) <= k
    high, rest = mask & top, mask & ~top
    clean = valid_scores(student, mask)
    apart = bpr_loss(mean_over(clean, high, weight), mean_over(clean, rest, weight))
    apart = torch.where(high.any(1) & rest.any(1), apart, 0.0)
    squares = F.mse_loss(clean, valid_scores(teacher, mask).detach(), reduction="none")
    return alpha * apart + (1 - alpha) * mean_over(squares, mask, weight)
