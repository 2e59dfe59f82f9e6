"""The order of a user's events of the same time: that of the log, or that of a hash."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.data.dataset import check_ties
from shortlist.data.interactions import Interactions

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def hash64(users: NDArray[Any], items: NDArray[Any], seed: int) -> NDArray[np.uint64]:
    """64 bits that depend on user row, item row and seed alone, the same on every machine [E]."""
    start = np.array([seed % 2**64], np.uint64)
    return mixed(mixed(mixed(start) ^ users.astype(np.uint64)) ^ items.astype(np.uint64))


def with_tie_order(events: Interactions, ties: str = "hash", seed: int = 0) -> Interactions:
    """The same events; those of one user and time in the order of `hash64` ("hash"), or as they are ("file").

    "file" keeps the order of the log, or the one of `data prepare --ties hash`, which hashes ids instead of rows.
    """
    check_ties(ties)
    first = tie_starts(events)
    at = np.flatnonzero(np.bincount(first, minlength=len(events))[first] > 1)  # events in a tie
    if ties == "file" or not len(at):
        return events
    keys = hash64(events.users[at], events.items[at], seed)
    order = np.arange(len(events))
    order[at] = at[np.lexsort((keys, first[at]))]  # a stable sort: equal keys keep their order
    return events.where(order)


def tie_starts(events: Interactions) -> NDArray[np.int64]:
    """The first position of the events with the same user and time as each event [E]."""
    new = np.ones(len(events), bool)
    new[1:] = (events.users[1:] != events.users[:-1]) | (events.times[1:] != events.times[:-1])
    first: NDArray[np.int64] = np.flatnonzero(new)[np.cumsum(new) - 1]
    return first


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One output of SplitMix64 (Steele, Lea and Flood, 2014) per value; whole numbers wrap around."""
    bits = bits + GOLDEN
    for shift, factor in MIX:
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return np.asarray(bits ^ (bits >> np.uint64(31)))
