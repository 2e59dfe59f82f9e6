"""RankFlow: a stage follows the scores of the stage after it."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.train.loop.losses import bpr_loss
from shortlist.train.objectives.lists import Cap, mean_over, ranks, valid_scores
from shortlist.train.objectives.listwise import bce
from shortlist.train.objectives.pairwise import bpr

OWN = {"bpr": bpr, "bce": bce}


def rankflow(
    student: Tensor,
    teacher: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    k: Cap,
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


def rankflow_cascade(
    scores: Sequence[Tensor],
    labels: Tensor,
    mask: Tensor,
    weight: Tensor | None = None,
    *,
    caps: Sequence[int],
    alpha: float = 0.5,
    own: str = "bpr",
    relevant_from: float = 1.0,
) -> Tensor:
    """The stages' own losses, and for each stage the RankFlow term with the next stage as teacher [B].

    caps[i] is the number of items that stage i keeps of a list: the k of the stage that it teaches.
    """
    if own not in OWN:
        raise ConfigError(f"own must be one of {', '.join(OWN)}, got {own!r}")
    if len(scores) != len(caps):
        raise ConfigError(f"one capacity per stage: got {len(scores)} stages and {len(caps)} capacities")
    total = sum(OWN[own](one, labels, mask, weight, relevant_from=relevant_from) for one in scores)
    teachers = zip(scores[:-1], scores[1:], caps[1:], strict=True)
    terms = [rankflow(one, teacher, mask, weight, k=k, alpha=alpha) for one, teacher, k in teachers]
    return torch.as_tensor(total) + sum(terms)
