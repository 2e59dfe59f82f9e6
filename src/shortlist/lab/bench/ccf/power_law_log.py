"""A long log with the sizes of real ones: users and items by power laws."""

import numpy as np
from numpy.typing import NDArray

from shortlist.data import Interactions

USERS, ITEMS = 0.6, 0.7  # exponents of the share of events by rank
BLOCK = 1 << 20  # events that are sampled at once


def power_law_log(n_users: int, n_items: int, events: int, seed: int) -> Interactions:
    """Events of independent users and items; popular rows are everywhere in the tables."""
    rng = np.random.default_rng(seed)
    users = _rows(n_users, USERS, events, rng)
    return Interactions.of(users, _rows(n_items, ITEMS, events, rng), n_users=n_users, n_items=n_items)


def _rows(count: int, exponent: float, events: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Random rows [E]; the share of the row of rank r is proportional to r ** -exponent."""
    edges = np.cumsum(np.arange(1.0, count + 1) ** -exponent)
    row_of_rank, rows = rng.permutation(count).astype(np.int32), np.empty(events, np.int32)
    for start in range(0, events, BLOCK):
        part = rows[start : start + BLOCK]
        ranks = np.searchsorted(edges, rng.random(len(part)) * edges[-1])
        part[:] = row_of_rank[np.minimum(ranks, count - 1)]
    return rows
