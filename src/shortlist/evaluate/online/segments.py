"""Segments of evaluated events: by the activity of their users, and by the number of the event of a new user."""

import numpy as np
from numpy.typing import NDArray

from shortlist.data.activity import is_active
from shortlist.errors import ConfigError
from shortlist.evaluate.online.online_test import OnlineTest

TRAIN_BINS = (0, 1, 11, 21, 51, 101, 201, 401)  # first T of each bin
EVENT_BINS = (1, 2, 3, 4, 6, 11, 21, 51, 101)  # first event number of each bin

Bools = NDArray[np.bool_]


def segments(test: OnlineTest, threshold: int | None) -> dict[str, Bools]:
    """Masks over evaluated events [n] by name; T is the number of training events of a user.

    "new" has T = 0, "inactive" 0 < T <= threshold, "active" T > threshold; without a threshold all users with training
    events are "known". "T 1-10" and the like are bins of T. "event 1" and the like are bins of the number of an event
    among all events of a new user.
    """
    if threshold is not None and threshold < 0:
        raise ConfigError(f"online segments: expected a threshold of 0 or more, or none, got {threshold}")
    counts = test.train_counts[test.users]
    new = counts == 0
    found = {"all": np.ones(len(test), bool), "new": new}
    if threshold is None:
        found["known"] = ~new
    else:
        active = is_active(counts, threshold)
        found |= {"inactive": ~new & ~active, "active": active}
    found |= _bins("T ", counts, TRAIN_BINS)
    by_number = _bins("event ", test.event_numbers, EVENT_BINS)
    return found | {name: new & inside for name, inside in by_number.items()}


def _bins(prefix: str, values: NDArray[np.int64], starts: tuple[int, ...]) -> dict[str, Bools]:
    """Masks of the values from each start up to the next one."""
    at = np.searchsorted(starts, values, "right") - 1
    return {prefix + _name(starts, number): at == number for number in range(len(starts))}


def _name(starts: tuple[int, ...], number: int) -> str:
    """A range such as 21-50; the last one is open."""
    first = starts[number]
    if number + 1 == len(starts):
        return f"> {first - 1}"
    last = starts[number + 1] - 1
    return f"{first}" if first == last else f"{first}-{last}"
