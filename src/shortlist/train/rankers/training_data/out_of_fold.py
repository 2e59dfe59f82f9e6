"""Training requests for rankers, and the nominators' training data that excludes their targets.

The events of every training user are cut, as the split's protocol cuts them: the part before a cut is the history of a
request, the items after it are its targets. `earlier`: nominators are fitted on all events before the first cuts.
`other-users`: users are split into folds, and the candidates of a fold come from nominators that were fitted on the
users of all other folds, as for users who are new in service; folds are used one after the other until there are enough
requests. `auto` takes the one that the protocol measures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import Candidates, HeldOut, Interactions
from shortlist.data.held_out import Positions
from shortlist.errors import DataError
from shortlist.settings import setting
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.training_data.retrieved import fold_of

BATCH = 128
CELLS = 1 << 25  # scores of a batch, for all items, at most
FEW = 0.05  # share of the requests for which no further fold is fitted
BATCHES = 20  # fewer requests per batch where there would be fewer batches
MOST_PER_USER = 5  # requests of a user under leave-last-out, where users are fewer than requests
LATE = 0.85  # share of the events before the first cut of "global-time"
LATER = (0.9, 0.95)  # and before its further cuts
QUARTERS = (1, 3)  # further cuts of half-history, where candidates come from other users
MIN_BEFORE = 2  # events before a further cut


@dataclass(frozen=True)
class OutOfFoldConfig:
    """The table [train] of a recipe: how rankers get candidates from nominators that never saw the targets."""

    out_of_fold: str = setting(
        "auto",
        "Training data of the nominators that make candidates for rankers: events before each user's cut, or all "
        "events of other users; auto: other users where the protocol holds out whole users.",
        choices=("auto", "earlier", "other-users"),
    )
    requests: int = setting(20_000, "Largest number of training requests for rankers.", least=1, most=1e9)
    log_requests: int = setting(
        50_000,
        "Largest number of requests of a full-stage log that are kept in memory; the newest.",
        least=1,
        most=1e9,
    )
    folds: int = setting(
        2,
        "Folds of requests: a stage before another ranker is trained without each fold. Candidates from other users: "
        "nominators know all other folds, and are fitted for one fold after the other until there are enough requests.",
        least=2,
        most=100,
    )

    def from_others(self, protocol: Mapping[str, Any]) -> bool:
        """Whether candidates come from nominators that were fitted on other users."""
        if self.out_of_fold == "auto":
            return protocol_name(protocol) == "half-history"
        return self.out_of_fold == "other-users"


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests, and up to where each user's later items reach: those are no negatives."""

    held_out: HeldOut
    ends: Positions  # [C]

    def __len__(self) -> int:
        return len(self.held_out)

    def take(self, rows: Positions | slice) -> "Requests":
        """A subset of the requests."""
        return Requests(self.held_out.take(rows), self.ends[rows])

    def and_then(self, others: "Requests") -> "Requests":
        """These requests, then others of the same events."""
        mine, theirs = self.held_out, others.held_out
        columns = [
            np.concatenate([getattr(mine, name), getattr(theirs, name)])
            for name in ("starts", "cuts", "stops")
        ]
        return Requests(HeldOut(mine.events, *columns), np.concatenate([self.ends, others.ends]))


@dataclass(frozen=True, eq=False)
class OutOfFoldData:
    """Requests, and events to fit nominators on that contain none of their targets."""

    past: Interactions  # events before each user's first cut
    others: Interactions  # events that users of other folds may contribute: all, or the past under one cut in time
    first: Positions  # where each user's first request is [U]
    every: Requests  # in random order
    most: int  # of them that are used

    @property
    def requests(self) -> Requests:
        """The requests that are used."""
        return self.every.take(slice(self.most))

    def before(self, parts: Sequence[tuple[Interactions, Requests]]) -> Interactions:
        """All events but those after the first cut of users whose requests are in these folds."""
        if self.others is self.past:
            return self.past
        used = np.zeros(self.others.n_users, bool)
        for _, requests in parts:
            used[requests.held_out.users] = True
        users = self.others.users
        return self.others.where((np.arange(len(users)) < self.first[users]) | ~used[users])


def out_of_fold_data(
    events: Interactions, protocol: Mapping[str, Any], seed: int, most: int, several: bool = False
) -> OutOfFoldData:
    """Cut the training events as the protocol does; `most` random requests at most.

    Under leave-last-out a user with many events has several requests, each with the next event as its target. With
    `several`, users have requests at a quarter, half and three quarters under half-history; those at half come first.
    Under one cut in time there are requests at two later times too: nominators in service are older than the history.
    """
    name = protocol_name(protocol)
    cuts = _cuts(events, name)
    starts, stops = events.starts[:-1], events.starts[1:]
    first = _first_cuts(events, cuts, most) if name == "leave-last-out" else cuts
    # Under one cut in time, users without earlier events ask too, as they do in the test part.
    users = np.flatnonzero((cuts < stops) & ((cuts > starts) | (name == "global-time")))
    if not np.any(first[users] > starts[users]):
        raise DataError(
            "out-of-fold candidates: expected users with events before and after a cut, got none; the log is too short"
        )
    every = _shuffled(_requests(events, users, first, cuts, name), seed)
    if several and name == "half-history":
        further = _further_requests(events, users, cuts)
        first = first.copy()
        np.minimum.at(first, further.held_out.users, further.held_out.cuts)
        every = every.and_then(_shuffled(further, seed))
    if name == "global-time":
        every = every.and_then(_shuffled(_later_requests(events, cuts), seed))
    past = events.where(np.arange(len(events)) < first[events.users])
    return OutOfFoldData(past, past if name == "global-time" else events, first, every, most)


def _shuffled(requests: Requests, seed: int) -> Requests:
    return requests.take(np.random.default_rng(seed).permutation(len(requests)))


def _further_requests(events: Interactions, users: Positions, cuts: Positions) -> Requests:
    """Requests at other quarters of a history than half, with some events before them and one after."""
    starts, stops = events.starts[:-1], events.starts[1:]
    at = np.stack([starts[users] + events.lengths[users] * one // 4 for one in QUARTERS])
    owner = np.broadcast_to(users, at.shape)
    used = (at - starts[owner] >= MIN_BEFORE) & (at < stops[owner]) & (at != cuts[owner])
    owner, at = owner[used], at[used]
    return Requests(HeldOut(events, starts[owner], at, stops[owner]), stops[owner])


def _later_requests(events: Interactions, cuts: Positions) -> Requests:
    """Requests at later times, of users with events since the cut before and after it."""
    starts, stops = events.starts[:-1], events.starts[1:]
    owners, at, before = list[Positions](), list[Positions](), cuts
    for share in LATER:
        now = _cuts_at(events, share)
        users = np.flatnonzero((now > before) & (now < stops))
        owners, at, before = [*owners, users], [*at, now[users]], now
    owner, cut = np.concatenate(owners), np.concatenate(at)
    return Requests(HeldOut(events, starts[owner], cut, stops[owner]), stops[owner])


def held_out_requests(parts: Sequence[HeldOut], seed: int, most: int) -> Requests:
    """Validation and test requests as training requests of a refit, `most` random ones at most."""
    columns = [np.concatenate([getattr(one, name) for one in parts]) for name in ("starts", "cuts", "stops")]
    held_out = HeldOut(parts[0].events, *columns)
    ends = held_out.events.starts[held_out.users + 1]
    sampled = np.random.default_rng((seed, 1)).permutation(len(held_out))[:most]
    return Requests(held_out, ends).take(sampled)


def protocol_name(protocol: Mapping[str, Any]) -> str:
    """The name of a protocol in the settings of a split."""
    return str(protocol.get("protocol", "half-history"))


def _first_cuts(events: Interactions, cuts: Positions, most: int) -> Positions:
    """Where a user's first request is, under leave-last-out [U]: at most a quarter of the events are targets."""
    users = max(int(np.count_nonzero(events.lengths > 1)), 1)
    count = np.clip(events.lengths // 4, 1, max(min(most // users, MOST_PER_USER), 1))
    return np.asarray(np.maximum(cuts - count + 1, events.starts[:-1]))


def _requests(
    events: Interactions, users: Positions, first: Positions, cuts: Positions, name: str
) -> Requests:
    """One request per user, or one per event from the first cut on."""
    starts, stops = events.starts[:-1], events.starts[1:]
    if name != "leave-last-out":
        return Requests(HeldOut(events, starts[users], cuts[users], stops[users]), stops[users])
    count = cuts[users] - first[users] + 1
    owner = np.repeat(users, count)
    at = first[owner] + np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return Requests(HeldOut(events, starts[owner], at, at + 1), stops[owner])


def folds_of(data: OutOfFoldData, folds: int, seed: int) -> Iterator[tuple[Interactions, Requests]]:
    """For one fold of users after the other, until there are enough requests: events of other users, own requests."""
    events, left = data.others, data.most
    fold = fold_of(events.n_users, folds, seed)
    for number in range(folds):
        own = data.every.take(np.flatnonzero(fold[data.every.held_out.users] == number)[:left])
        others = events.where(fold[events.users] != number)
        if not len(own) or not len(others):
            raise DataError(
                f"out-of-fold candidates: fold {number + 1} of {folds} has {len(own)} requests and {len(others)} "
                "events of other users; use fewer folds"
            )
        yield others, own
        left -= len(own)
        if left < FEW * data.most:
            return  # one more fit would not be worth the few requests that are missing


def _cuts(events: Interactions, protocol: str) -> Positions:
    """The position where each user's history ends [U]."""
    starts, lengths = events.starts[:-1], events.lengths
    if protocol == "leave-last-out":
        return starts + np.maximum(lengths - 1, 0)
    return _cuts_at(events, LATE) if protocol == "global-time" else starts + lengths // 2


def _cuts_at(events: Interactions, share: float) -> Positions:
    """The position of each user's first event after this share of all events in time [U]."""
    when = np.sort(events.times)[int(share * len(events))]
    before = np.bincount(events.users, weights=events.times < when, minlength=events.n_users)
    return events.starts[:-1] + before.astype(np.int64)


def request_batches(requests: Requests) -> list[RequestBatch]:
    """Requests in batches, without candidates yet; small enough that there are some to validate on.

    All requests of a user are in one batch: whoever divides batches divides users, whose requests share targets.
    """
    requests = by_user(requests)
    held_out = requests.held_out
    batches, strengths = [], _target_strengths(held_out)
    after = HeldOut(held_out.events, held_out.cuts, held_out.stops, requests.ends)
    has_later = bool(np.any(requests.ends > held_out.stops))
    for rows in user_blocks(held_out.users, held_out.events.n_items):
        query = held_out.query(rows, int(held_out.take(rows).history_lengths().max(initial=1)))
        targets = held_out.relevant(rows)
        weights = None if strengths is None else _looked_up(strengths[rows], targets)
        later = after.relevant(rows) if has_later else None
        batches.append(RequestBatch(query, Candidates.none(len(query)), targets, weights, later))
    return batches


def by_user(requests: Requests) -> Requests:
    """The requests of a user one after the other, users in the order of their first request."""
    _, first, user = np.unique(requests.held_out.users, return_index=True, return_inverse=True)
    return requests.take(np.argsort(first[user], kind="stable"))


def user_blocks(users: Positions, n_items: int) -> Iterator[slice]:
    """Slices of about equal size of requests of these users, grouped by user, that end where a user ends."""
    widest = max(min(BATCH, CELLS // max(n_items, 1)), 1)
    size = min(max(len(users) // BATCHES, 1), widest)
    ends = np.append(np.flatnonzero(users[1:] != users[:-1]) + 1, len(users))  # where users end
    start = 0
    while start < len(users):
        stop = int(ends[np.searchsorted(ends, min(start + size, len(users)))])
        yield slice(start, stop)
        start = stop


def _target_strengths(requests: HeldOut) -> sparse.csr_matrix | None:
    """Requests x items with the largest strength of an item among the events after the cut; None: all are equal."""
    events, lengths = requests.events, requests.stops - requests.cuts
    if events.strengths is None:
        return None
    request = np.repeat(np.arange(len(requests)), lengths)
    at = np.arange(len(request)) - np.repeat(lengths.cumsum() - lengths - requests.cuts, lengths)
    targets = Interactions.of(
        request, events.items[at], weights=events.weights[at], n_users=len(requests), n_items=events.n_items
    )
    return None if targets.strengths is None else targets.weighted_matrix()


def _looked_up(strengths: sparse.csr_matrix, targets: Tensor) -> Tensor:
    """The strength of each target [B, R]; 0 for padding."""
    rows = np.broadcast_to(np.arange(len(targets))[:, None], targets.shape)
    found = np.asarray(strengths[rows.ravel(), targets.clamp(min=0).numpy().ravel()])
    return torch.from_numpy(found.reshape(targets.shape)).masked_fill(targets < 0, 0.0)
