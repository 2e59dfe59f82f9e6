"""Positive feedback of a full-stage log as events: targets of trainers that read events only."""

from dataclasses import replace

import numpy as np

from shortlist.data import Interactions
from shortlist.feedback.record import Array
from shortlist.train.context import TrainContext
from shortlist.train.logged.training_log import TrainingLog

EXAMPLES = "examples"  # a column, until events are sorted


def with_logged_targets(context: TrainContext) -> TrainContext:
    """The same context, with the logged positives among the events and no log."""
    if context.log is None:
        return context
    return replace(context, events=with_positives(context.events, context.log), log=None)


def with_positives(events: Interactions, log: TrainingLog) -> Interactions:
    """The events, and one of mean weight for each item with positive feedback that the user has no event with."""
    rows = np.flatnonzero(log.log.stratum == log.log.n_stages + 1)
    request = log.log.request[rows]
    users, items = log.log.user_id[request].astype(np.int64), log.log.item_id[rows].astype(np.int64)
    new = _new(users * events.n_items + items, events)
    weight = float(events.weights.mean()) if len(events) else 1.0
    own = np.ones(len(rows)) if log.log.strength is None else log.log.strength[rows]
    known = np.ones(len(events)) if events.examples is None else events.examples
    every = Interactions.of(
        np.concatenate([events.users, users[new]]),
        np.concatenate([events.items, items[new]]),
        np.concatenate([events.times, log.time[request[new]]]),
        np.concatenate([events.weights, np.full(len(new), weight, events.weights.dtype)]),
        n_users=events.n_users,
        n_items=events.n_items,
        columns={EXAMPLES: np.concatenate([known, own[new]]).astype(np.float32)},
    )
    given = None if events.examples is None else every.columns[EXAMPLES]
    return replace(every, columns={}, examples=given)


def _new(keys: Array, events: Interactions) -> Array:
    """Positions of the first of equal keys, user * n_items + item, that no event has."""
    known = events.users.astype(np.int64) * events.n_items + events.items
    first = np.unique(keys, return_index=True)[1]
    return np.sort(first[~np.isin(keys[first], known)])
