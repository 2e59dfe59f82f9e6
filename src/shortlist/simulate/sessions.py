"""When users come: who is active how often, at which times, and where a session begins."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.simulate.world import DAY, Rows, World

SESSION = 6.0  # events in a session, on average
GAP = 180_000  # milliseconds between two events of a session


@dataclass(frozen=True, eq=False)
class Visits:
    """A group of users, the most active first; user g has events at the first counts[g] of its times."""

    users: Rows  # [G]
    counts: Rows  # [G] descending
    times: Rows  # [G, T] ascending
    opens: NDArray[np.bool_]  # [G, T] where a session begins


def event_counts(world: World, n_events: int) -> Rows:
    """How many events each user has, `n_events` together [U]."""
    shares = world.activity.astype(np.float64)
    edges = np.rint(np.cumsum(shares) / shares.sum() * n_events).astype(np.int64)
    return np.asarray(np.diff(edges, prepend=0), np.int64)


def plan(world: World, users: Rows, counts: Rows, rng: np.random.Generator) -> Visits:
    """Sessions at random moments of each user's stay, their events minutes apart."""
    shape = (len(users), int(counts.max()))
    places = np.arange(shape[1])
    moments = np.where(places < counts[:, None], rng.random(shape), 1.0)
    moments.sort(axis=1)  # places without an event lie at the end
    opens = rng.random(shape) < 1 / SESSION
    opens[:, 0] = True
    first = np.maximum.accumulate(np.where(opens, places, 0), axis=1)  # where the session of an event began
    begun = np.take_along_axis(moments, first, axis=1)
    age = world.arrivals[users][:, None] + world.stays[users][:, None] * begun
    times = world.start + (age * world.days * DAY).astype(np.int64) + GAP * (places - first)
    return Visits(users, counts, np.sort(times.clip(max=world.end), axis=1), opens)
