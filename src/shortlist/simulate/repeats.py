"""Repeat consumption: some choices of a log become items that the user had before."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shortlist.data import Dataset, Interactions
from shortlist.errors import ConfigError

NEAR = 5  # events back, within which half of the repeated events are


def with_repeats(log: Dataset, share: float, seed: int = 0) -> Dataset:
    """The same log, in which a random `share` of the events is of an item that the user had before.

    Half of them repeat one of the last 5 events, half any earlier event: items that were taken often are repeated more
    often. The first event of a user stays.
    """
    if not 0 <= share <= 1:
        raise ConfigError(f"with_repeats: expected a share between 0 and 1, got {share}")
    events, rng = log.events, np.random.default_rng([seed, 13])
    sources = _sources(events, share, rng)
    items = events.items.copy()
    for at in np.flatnonzero(sources != np.arange(len(events))):  # in order: a repeated event can be repeated
        items[at] = items[sources[at]]
    changed = Interactions.of(events.users, items, events.times, None, events.n_users, events.n_items)
    return replace(log, name=f"{log.name}-repeats", events=changed)


def _sources(events: Interactions, share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The event that each event repeats, itself if none."""
    own = np.arange(len(events))
    place = own - events.starts[events.users]  # earlier events of the same user
    reach = np.where(rng.random(len(events)) < 0.5, np.minimum(place, NEAR), place)
    back = 1 + np.floor(rng.random(len(events)) * reach).astype(np.int64)
    repeated = (rng.random(len(events)) < share) & (place > 0)
    return np.where(repeated, own - back, own)
