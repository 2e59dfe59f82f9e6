"""Vectors of active users: of all their training events, fitted again without the last ones, or shrunk to the mean."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Interactions
from shortlist.metrics.moments import Moments, split_half_moments
from shortlist.models.fold_in import fold_in, sums_of

FEW = 50  # users below which moments are not estimated
HALVES = (50, 20, 10, 5)  # events of a half, the largest that enough users have
MOST_USERS = 2000  # whose halves are fitted

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Vectors of the first stage in their gauge, and the prior of users."""

    users: Tensor  # [n_users, D]
    items: Tensor  # [N, D]
    mean: Tensor  # [D] over trained users
    prior: float  # of |vector - mean|^2, in the gauge


def held_vectors(events: Interactions, users: Positions, last: int, stage: FirstStage) -> Tensor:
    """Vectors of users [U] fitted to all but their last events, item vectors frozen [U, D]."""
    starts = events.starts[users]
    return fitted(events, starts, np.maximum(events.starts[users + 1] - last, starts), stage)


def fitted(events: Interactions, starts: Positions, stops: Positions, stage: FirstStage) -> Tensor:
    """The vector of each range of events [U, D]; the mean for an empty one."""
    lengths = stops - starts
    at = np.arange(int(lengths.sum())) + np.repeat(starts - (lengths.cumsum() - lengths), lengths)
    return _fitted(events.items[at], lengths, stage)


def shrunk(vectors: Tensor, counts: Tensor, ratio: float, mean: Tensor) -> Tensor:
    """Vectors [U, D] moved towards the mean: their weight is (T + 1) / (T + 1 + Q / V) after T events."""
    weight = (counts + 1) / (counts + 1 + ratio)
    return mean + weight[:, None] * (vectors - mean)


def moments_of(events: Interactions, stage: FirstStage, seed: int) -> Moments | None:
    """Q and V from two disjoint random halves of the events of users who have enough; None with too few users."""
    for size in HALVES:
        users = np.flatnonzero(events.lengths >= 2 * size)
        if len(users) >= FEW:
            rng = np.random.default_rng((seed, size))
            chosen = rng.permutation(users)[:MOST_USERS]
            order = np.stack([rng.permutation(int(events.lengths[user]))[: 2 * size] for user in chosen])
            rows = events.items[events.starts[chosen][:, None] + order]  # [U, 2 size]
            halves = [
                _fitted(part.reshape(-1), np.full(len(chosen), size), stage).double().cpu().numpy()
                for part in (rows[:, :size], rows[:, size:])
            ]
            return split_half_moments(*halves, size)
    return None


def _fitted(items: NDArray[np.int32], lengths: Positions, stage: FirstStage) -> Tensor:
    rows = torch.from_numpy(items.astype(np.int64)).to(stage.items.device)
    counts = torch.from_numpy(lengths).to(stage.items.device)
    return fold_in(sums_of(rows, stage.items, counts), counts, stage.items, stage.mean, stage.prior)
