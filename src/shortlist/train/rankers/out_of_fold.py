"""Training requests for rankers, and the nominators' training data that excludes their targets.

Every training user's events are cut in two, as the split's protocol cuts them: the part before the cut is the history
of a request, the items after it are its targets. `earlier`: nominators are fitted on all events before the cuts.
`other-users`: users are split into folds, and the candidates of a fold come from nominators that were fitted on the
users of all other folds. That is closer to serving new users, and fits the nominators once per fold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import Candidates, HeldOut, Interactions
from shortlist.errors import DataError
from shortlist.settings import setting
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.retrieved import fold_of

BATCH = 128
BATCHES_PER_STAGE = 10  # fewer requests per batch where there would be fewer batches
LATE = 0.85  # share of the events before the cut of "global-time"


@dataclass(frozen=True)
class OutOfFoldConfig:
    """The table [train] of a recipe: how rankers get candidates from nominators that never saw the targets."""

    out_of_fold: str = setting(
        "earlier",
        "Training data of the nominators that make candidates for rankers: events before each user's cut, or all "
        "events of other users.",
        choices=("earlier", "other-users"),
    )
    requests: int = setting(20_000, "Largest number of training requests for rankers.", least=1, most=1e9)
    folds: int = setting(2, 'Folds of users, with out_of_fold = "other-users".', least=2, most=100)


@dataclass(frozen=True, eq=False)
class OutOfFoldData:
    """Requests, and events to fit nominators on that contain none of their targets."""

    past: Interactions  # events before each user's cut
    others: Interactions  # events that users of other folds may contribute: all, or the past under one cut in time
    requests: HeldOut


def out_of_fold_data(
    events: Interactions, protocol: Mapping[str, Any], seed: int, most: int
) -> OutOfFoldData:
    """Cut the training events as the protocol does; requests of at most `most` random users."""
    name = str(protocol.get("protocol", "half-history"))
    cuts = _cuts(events, name)
    starts, stops = events.starts[:-1], events.starts[1:]
    users = np.flatnonzero((cuts > starts) & (cuts < stops))
    if len(users) == 0:
        raise DataError(
            "out-of-fold candidates: expected users with events before and after a cut, got none; the log is too short"
        )
    past = events.where(np.arange(len(events)) < cuts[events.users])
    sampled = np.random.default_rng(seed).permutation(users)[:most]
    others = past if name == "global-time" else events
    return OutOfFoldData(past, others, HeldOut(events, starts[sampled], cuts[sampled], stops[sampled]))


def folds_of(data: OutOfFoldData, folds: int, seed: int) -> Iterator[tuple[Interactions, HeldOut]]:
    """For every fold of users: the events of all other users, and the requests of its own users."""
    events, requests = data.others, data.requests
    fold = fold_of(events.n_users, folds, seed)
    for number in range(folds):
        own = requests.take(np.flatnonzero(fold[requests.users] == number))
        others = events.where(fold[events.users] != number)
        if not len(own) or not len(others):
            raise DataError(
                f"out-of-fold candidates: fold {number + 1} of {folds} has {len(own)} requests and {len(others)} "
                "events of other users; use fewer folds"
            )
        yield others, own


def _cuts(events: Interactions, protocol: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The position where each user's history ends [U]."""
    starts, lengths = events.starts[:-1], events.lengths
    if protocol == "leave-last-out":
        return starts + np.maximum(lengths - 1, 0)
    if protocol == "global-time":
        when = np.sort(events.times)[int(LATE * len(events))]
        before = np.bincount(events.users, weights=events.times < when, minlength=events.n_users)
        return starts + before.astype(np.int64)
    return starts + lengths // 2


def request_batches(requests: HeldOut, trained_stages: int = 1) -> list[RequestBatch]:
    """Requests in batches, without candidates yet; small enough that every trained stage gets some, and validates."""
    size = min(max(len(requests) // (BATCHES_PER_STAGE * trained_stages), 1), BATCH)
    batches, strengths = [], _target_strengths(requests)
    for start in range(0, len(requests), size):
        rows = slice(start, start + size)
        query = requests.query(rows, int(requests.take(rows).history_lengths().max()))
        targets = requests.relevant(rows)
        weights = None if strengths is None else _looked_up(strengths, query.user, targets)
        batches.append(RequestBatch(query, Candidates.none(len(query)), targets, weights))
    return batches


def _target_strengths(requests: HeldOut) -> sparse.csr_matrix | None:
    """Users x items with the largest strength of an item among the events after the cut; None: all are equal."""
    edges = np.zeros(
        len(requests.events) + 1, np.int64
    )  # +1 where the targets of a request begin, -1 at their end
    np.add.at(edges, requests.cuts, 1)
    np.add.at(edges, requests.stops, -1)
    targets = requests.events.where(edges[:-1].cumsum() > 0)
    return None if targets.strengths is None else targets.weighted_matrix()


def _looked_up(strengths: sparse.csr_matrix, users: Tensor, targets: Tensor) -> Tensor:
    """The strength of each target [B, R]; 0 for padding."""
    rows = np.broadcast_to(users.numpy()[:, None], targets.shape)
    found = np.asarray(strengths[rows.ravel(), targets.clamp(min=0).numpy().ravel()])
    return torch.from_numpy(found.reshape(targets.shape)).masked_fill(targets < 0, 0.0)
