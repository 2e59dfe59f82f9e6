"""The scale of user vectors: scores do not change when users are divided and items multiplied by the same number."""

import torch
from torch import Tensor

QUANTILE, TARGET = 0.999, 0.9


@torch.no_grad()
def gauge_fix(
    users: Tensor, items: Tensor, quantile: float = QUANTILE, target: float = TARGET
) -> tuple[Tensor, Tensor, float]:
    """User vectors [U, D] divided by a factor, item vectors [N, D] multiplied by it, and the factor.

    The quantile of the absolute coordinates of users becomes `target`. A GRU state stays within [-1, 1] in every
    coordinate, so a start vector outside could never be reached again.
    """
    sizes = users.abs().flatten()
    if not len(sizes):
        return users, items, 1.0
    place = min(int(quantile * len(sizes)), len(sizes) - 1)  # torch.quantile refuses large tensors
    factor = float(sizes.kthvalue(place + 1).values) / target
    if not factor > 0:
        return users, items, 1.0
    return users / factor, items * factor, factor
