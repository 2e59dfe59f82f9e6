"""Logged positives and the events that they became."""

import numpy as np

from shortlist.data import Interactions
from shortlist.feedback.nominations import NominationLog
from shortlist.feedback.record import Array
from shortlist.train.logged.training_log import TrainingLog


def positive_rows(log: TrainingLog) -> Array:
    """The rows of the log with positive feedback [P]."""
    return np.flatnonzero(log.log.stratum == log.log.n_stages + 1)


def picks_of(log: TrainingLog, nominator: str) -> NominationLog:
    """Whether a nominator nominated the positives of a log, in the order of `positive_rows`."""
    known = log.nominations
    assert known is not None
    assert log.log.nomination is not None
    return known.of([nominator]).take(log.log.nomination[positive_rows(log)])


def with_picked_events(events: Interactions, log: TrainingLog) -> Interactions:
    """The events, and one of mean weight for each logged positive without an event of its pair since the request."""
    rows, at = positive_rows(log), event_of(log, events)
    request = log.log.request[rows]
    users, items = log.log.user_id[request].astype(np.int64), log.log.item_id[rows].astype(np.int64)
    missing = np.flatnonzero(at < 0)
    if not len(missing):
        return events
    # The last request of a pair: its event is the first one after all requests of the pair.
    last = len(missing) - 1 - np.unique((users * events.n_items + items)[missing][::-1], return_index=True)[1]
    new = np.sort(missing[last])
    weight = events.weights.mean() if len(events) else 1.0
    return Interactions.of(
        np.concatenate([events.users, users[new]]),
        np.concatenate([events.items, items[new]]),
        np.concatenate([events.times, log.time[request[new]]]),
        np.concatenate([events.weights, np.full(len(new), weight, events.weights.dtype)]),
        n_users=events.n_users,
        n_items=events.n_items,
    )


def event_of(log: TrainingLog, events: Interactions) -> Array:
    """For each logged positive the first event of its user and item from its request on [P], -1 if there is none."""
    rows = positive_rows(log)
    request = log.log.request[rows]
    users = np.concatenate([log.log.user_id[request], events.users]).astype(np.int64)
    items = np.concatenate([log.log.item_id[rows], events.items]).astype(np.int64)
    times = np.concatenate([log.time[request], events.times])
    pair, is_event = users * events.n_items + items, np.arange(len(users)) >= len(rows)
    order = np.lexsort((is_event, times, pair))
    place = np.where(is_event[order], np.arange(len(order)), len(order))
    following = np.minimum.accumulate(place[::-1])[::-1]  # the next place of an event
    found = np.full(len(users), -1)
    inside = following < len(order)
    found[order[inside]] = order[following[inside]]
    own = found[: len(rows)]
    same = (own >= 0) & (pair[np.maximum(own, 0)] == pair[: len(rows)])
    matched: Array = np.where(same, own - len(rows), -1)
    return matched
