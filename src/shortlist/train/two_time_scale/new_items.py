"""Vectors of items without training events, after the vectors of the others were trained further."""

import torch
from torch import Tensor

RIDGE = 1e-3  # times the mean square of the old vectors and the number of items


@torch.no_grad()
def follow(old: Tensor, new: Tensor, trained: Tensor) -> Tensor:
    """The new vectors [N, D]; items that are not `trained` [N] follow the linear map from old to new of the others.

    The map is a ridge regression with an intercept. Without it an item without events would keep what its part as a
    negative of every step did to it, which is never to be recommended.
    """
    if bool(trained.all()) or not bool(trained.any()):
        return old.clone() if not bool(trained.any()) else new.clone()
    before, after = old[trained].double(), new[trained].double()
    centre, target = before.mean(0), after.mean(0)
    given, moved = before - centre, after - target
    size = float(given.square().mean()) * len(given)
    eye = torch.eye(old.shape[1], dtype=torch.float64, device=old.device)
    matrix = torch.linalg.solve(given.T @ given + (RIDGE * size + 1e-9) * eye, given.T @ moved)
    result = new.clone()
    result[~trained] = (target + (old[~trained].double() - centre) @ matrix).to(new.dtype)
    return result
