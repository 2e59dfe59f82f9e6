"""Vectors of users with item vectors frozen, and the prior that they are fitted with."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.fold_in import fold_in, sums_of
from shortlist.train.loop.products import fast_products

FEW = 50  # users below which nothing is estimated
MOST_USERS = 500  # whose events are fitted for an estimate
MOST_HELD = 20  # last events that a prior is chosen by
PRIORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the one that the spread of the vectors says

Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemSpace:
    """Item vectors, and the prior of the users over them."""

    items: Tensor  # [N, D]
    mean: Tensor  # [D] of users
    prior: float  # weight of |vector - mean|^2


def held_vectors(events: Interactions, users: Positions, last: int, space: ItemSpace) -> Tensor:
    """Vectors of users [U] fitted to all but their last events [U, D]."""
    starts = events.starts[users]
    return fitted(events, starts, np.maximum(events.starts[users + 1] - last, starts), space)


def fitted(events: Interactions, starts: Positions, stops: Positions, space: ItemSpace) -> Tensor:
    """The vector of each range of events [U, D]; the mean for an empty one."""
    sums, counts = _sums(events, _positions(starts, stops), stops - starts, space.items)
    with fast_products():
        return fold_in(sums, counts, space.items, space.mean, space.prior)


def space_of(events: Interactions, items: Tensor, seed: int, prior: float) -> ItemSpace:
    """These item vectors with the mean of the vectors of some users, whose centre is that of all events together."""
    together = items.new_zeros(items.shape[1])
    if len(events):
        sums, counts = _sums(events, np.arange(len(events)), np.array([len(events)]), items)
        together = fold_in(sums, counts, items, together, 1.0)[0]
    space = ItemSpace(items, together, prior)
    users = _some(events, 1, seed)
    if not len(users):
        return space
    vectors = fitted(events, events.starts[users], events.starts[users + 1], space)
    return replace(space, mean=vectors.mean(0))


def chosen_prior(events: Interactions, space: ItemSpace, last: int, seed: int) -> ItemSpace:
    """The prior under which vectors of some users predict their last events best."""
    last = max(min(last, MOST_HELD), 1)
    users = _some(events, 2 * last, seed)
    if len(users) < FEW:
        return space
    starts, stops = events.starts[users], events.starts[users + 1]
    vectors = held_vectors(events, users, last, space)
    spread = float((vectors - space.mean).square().sum(1).mean()) / vectors.shape[1]
    usual = 0.5 / max(spread, 1e-6)
    sums, counts = _sums(events, _positions(stops - last, stops), np.full(len(users), last), space.items)
    found = []
    for factor in PRIORS:
        one = replace(space, prior=usual * factor)
        vectors = fitted(events, starts, stops - last, one)
        found.append((float(_losses(vectors, sums, counts, space.items).mean()), one.prior))
    return replace(space, prior=min(found)[1])


def _some(events: Interactions, least: int, seed: int) -> Positions:
    """At most MOST_USERS random users with enough events."""
    users = np.flatnonzero(events.lengths >= least)
    return np.sort(np.random.default_rng((seed, least)).permutation(users)[:MOST_USERS])


def _positions(starts: Positions, stops: Positions) -> Positions:
    """All positions of ranges of events, one range after the other."""
    lengths = stops - starts
    at: Positions = np.arange(int(lengths.sum())) + np.repeat(starts - (lengths.cumsum() - lengths), lengths)
    return at


def _sums(events: Interactions, at: Positions, lengths: Positions, items: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of item vectors and of weights over groups of events, by their positions: [U, D], [U]."""
    rows = torch.from_numpy(events.items[at].astype(np.int64)).to(items.device)
    groups = torch.from_numpy(lengths).to(items.device)
    if events.strengths is None:
        return sums_of(rows, items, groups), groups
    weights = torch.from_numpy(events.strengths[at]).to(items.device)
    totals = items.new_zeros(len(groups))
    totals.index_add_(
        0, torch.repeat_interleave(torch.arange(len(groups), device=items.device), groups), weights
    )
    return sums_of(rows, items, groups, weights), totals


def _losses(vectors: Tensor, sums: Tensor, counts: Tensor, items: Tensor) -> Tensor:
    """The softmax loss of the events of each user [U]."""
    return counts * (vectors @ items.T).logsumexp(1) - (vectors * sums).sum(1)
