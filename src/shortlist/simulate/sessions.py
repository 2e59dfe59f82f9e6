"""Event times: number of events per user, their times, and session starts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.simulate.world import DAY, Rows, World

SESSION = 6.0  # events in a session, on average
GAP = 180_000  # milliseconds between two events of a session


@dataclass(frozen=True, eq=False)
class Sessions:
    """Event times of a group of users, most active first; user g uses the first counts[g] of its times."""

    users: Rows  # [G]
    counts: Rows  # [G] descending
    times: Rows  # [G, T] ascending
    starts: NDArray[np.bool_]  # [G, T] first event of a session


def event_counts(world: World, n_events: int) -> Rows:
    """Number of events of each user, `n_events` in total [U]."""
    shares = world.activity.astype(np.float64)
    edges = np.rint(np.cumsum(shares) / shares.sum() * n_events).astype(np.int64)
    return np.asarray(np.diff(edges, prepend=0), np.int64)


def sample_sessions(world: World, users: Rows, counts: Rows, rng: np.random.Generator) -> Sessions:
    """Sessions at random times while each user is active; events of a session are minutes apart."""
    shape = (len(users), int(counts.max()))
    positions = np.arange(shape[1])
    moments = np.where(positions < counts[:, None], rng.random(shape), 1.0)
    moments.sort(axis=1)  # positions without an event sort to the end
    starts = rng.random(shape) < 1 / SESSION
    starts[:, 0] = True
    first = np.maximum.accumulate(np.where(starts, positions, 0), axis=1)  # first event of the session
    session_times = np.take_along_axis(moments, first, axis=1)
    age = world.arrivals[users][:, None] + world.lifetimes[users][:, None] * session_times
    times = world.start + (age * world.days * DAY).astype(np.int64) + GAP * (positions - first)
    return Sessions(users, counts, np.sort(times.clip(max=world.end), axis=1), starts)
