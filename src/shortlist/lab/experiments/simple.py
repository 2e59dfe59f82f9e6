"""Scores by item-item weights, and the simplest of these: cosines with every neighbour."""

import torch
from torch import Tensor

from shortlist.data import Query
from shortlist.evaluate.full_catalog import ScoreBlock


def linear(weights: Tensor) -> ScoreBlock:
    """Score by what was met times item-item weights [N, N]."""

    def score(query: Query, items: slice) -> Tensor:
        met = torch.zeros(len(query), len(weights) + 1)  # padding goes into a column of its own
        met.scatter_(1, query.history.masked_fill(query.history < 0, len(weights)), 1.0)
        return met[:, :-1] @ weights[:, items]

    return score


def cosine(met: Tensor) -> Tensor:
    """Item-item cosines of who met what [U, N], without the diagonal."""
    unit = torch.nn.functional.normalize(met, dim=0)
    return (unit.T @ unit).fill_diagonal_(0.0)
