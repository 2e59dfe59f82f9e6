"""Scores by item-item weights, and cosine similarities as the simplest weights."""

import torch
from torch import Tensor

from shortlist.data import Query
from shortlist.evaluate.full_catalog import ScoreBlock


def linear(weights: Tensor) -> ScoreBlock:
    """Scores: the history as a 0/1 vector times item-item weights [N, N]."""

    def score(query: Query, items: slice) -> Tensor:
        history = torch.zeros(len(query), len(weights) + 1)  # padding has a column of its own
        history.scatter_(1, query.history.masked_fill(query.history < 0, len(weights)), 1.0)
        return history[:, :-1] @ weights[:, items]

    return score


def cosine(interactions: Tensor) -> Tensor:
    """Item-item cosine similarities of a user-item matrix [U, N], with a zero diagonal."""
    unit = torch.nn.functional.normalize(interactions, dim=0)
    return (unit.T @ unit).fill_diagonal_(0.0)
