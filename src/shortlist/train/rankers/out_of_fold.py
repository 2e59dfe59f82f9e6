"""The second stages' training set, made without looking ahead.

Every training user's events are cut in two as the split's protocol would cut them; what the user met later says which
candidates were wanted. Nominators are fitted on the earlier parts alone and then asked (`earlier`). Or users are dealt
into parts, and each part is asked of nominators that were fitted on all events of the others (`other-users`): nearer to
how new users are served, and as many times the work as there are parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shortlist.data import Candidates, HeldOut, Interactions
from shortlist.errors import DataError
from shortlist.train.context import RequestBatch
from shortlist.train.rankers.retrieved import fold_of

WAYS = ("earlier", "other-users")

BATCH = 128
ENOUGH = 10  # rounds for each learner
LATER = 0.85  # where a log is cut in time, as a share of its events


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Events that lie before every cut, and cases that ask for what lies after.

    `others` is what users who are not asked may show: all they did, or the past where one cut in time is for all.
    """

    past: Interactions
    others: Interactions
    cases: HeldOut


def rehearse(events: Interactions, protocol: Mapping[str, Any], seed: int, most: int = 20_000) -> Rehearsal:
    """Cut the training events as the protocol does; at most `most` users are asked."""
    how = str(protocol.get("protocol", "half-history"))
    cuts = _cuts(events, how)
    starts, stops = events.starts[:-1], events.starts[1:]
    users = np.flatnonzero((cuts > starts) & (cuts < stops))
    if len(users) == 0:
        raise DataError(
            "rehearsal: expected users with events before and after a cut, got none; the log is too short"
        )
    past = events.where(np.arange(len(events)) < cuts[events.users])
    asked = np.random.default_rng(seed).permutation(users)[:most]
    others = past if how == "global-time" else events
    return Rehearsal(past, others, HeldOut(events, starts[asked], cuts[asked], stops[asked]))


def apart(rehearsal: Rehearsal, folds: int, seed: int) -> Iterator[tuple[Interactions, HeldOut]]:
    """For every part of the users: what the others may show, and the cases of its own users."""
    events, cases = rehearsal.others, rehearsal.cases
    part = fold_of(events.n_users, folds, seed)
    for number in range(folds):
        asked = cases.take(np.flatnonzero(part[cases.users] == number))
        learned = events.where(part[events.users] != number)
        if not len(asked) or not len(learned):
            raise DataError(
                f"rehearsal: part {number + 1} of {folds} has {len(asked)} users to ask and {len(learned)} events to "
                "learn from; use fewer folds"
            )
        yield learned, asked


def _cuts(events: Interactions, protocol: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Where each user's past ends [U]."""
    starts, lengths = events.starts[:-1], events.lengths
    if protocol == "leave-last-out":
        return starts + np.maximum(lengths - 1, 0)
    if protocol == "global-time":
        when = np.sort(events.times)[int(LATER * len(events))]
        before = np.bincount(events.users, weights=events.times < when, minlength=events.n_users)
        return starts + before.astype(np.int64)
    return starts + lengths // 2


def rounds_of(cases: HeldOut, learners: int = 1) -> list[RequestBatch]:
    """The cases in batches, nothing found yet; small enough that every learner gets some, and some to stop by."""
    batch = min(max(len(cases) // (ENOUGH * learners), 1), BATCH)
    rounds = []
    for start in range(0, len(cases), batch):
        rows = slice(start, start + batch)
        query = cases.query(rows, int(cases.take(rows).history_lengths().max()))
        rounds.append(RequestBatch(query, Candidates.none(len(query)), cases.relevant(rows)))
    return rounds
