"""Held-out requests from plain lists."""

from collections.abc import Sequence

import numpy as np

from shortlist.data import HeldOut, Interactions


def held_out_of(people: Sequence[tuple[Sequence[int], Sequence[int]]]) -> HeldOut:
    """One request per user: a history and the relevant items after it."""
    users = np.concatenate(
        [np.full(len(history) + len(later), row) for row, (history, later) in enumerate(people)]
    )
    items = np.concatenate([[*history, *later] for history, later in people]).astype(np.int64)
    events = Interactions.of(users, items, np.arange(len(users)), n_users=len(people))
    starts = events.starts[:-1]
    return HeldOut(events, starts, starts + [len(history) for history, _ in people], events.starts[1:])
