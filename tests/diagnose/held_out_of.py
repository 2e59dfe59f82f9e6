"""Held-out cases from plain lists."""

from collections.abc import Sequence

import numpy as np

from shortlist.data import HeldOut, Interactions


def cases_of(people: Sequence[tuple[Sequence[int], Sequence[int]]]) -> HeldOut:
    """One case per user: what each had met, and what each met next."""
    users = np.concatenate([np.full(len(met) + len(next_), row) for row, (met, next_) in enumerate(people)])
    items = np.concatenate([[*met, *next_] for met, next_ in people]).astype(np.int64)
    events = Interactions.of(users, items, np.arange(len(users)), n_users=len(people))
    starts = events.starts[:-1]
    return HeldOut(events, starts, starts + [len(met) for met, _ in people], events.starts[1:])
