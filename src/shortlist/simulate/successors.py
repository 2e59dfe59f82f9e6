"""First-order Markov structure of a world: the items that often come next after an item."""

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]


def sample_successors(groups: Rows, appeal: Floats, count: int, rng: np.random.Generator) -> Rows:
    """`count` items of the same group for every item, popular ones more often [I, count].

    They are distinct and do not contain the item itself, unless its group is too small.
    """
    successors = np.empty((len(groups), count), np.int64)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        # The top k of log weight + Gumbel noise are a weighted sample without replacement.
        keys = 0.5 * np.log(appeal[members]) + rng.gumbel(size=(len(members), len(members)))
        np.fill_diagonal(keys, -np.inf)
        ranked = np.argsort(-keys, axis=1)[:, : max(len(members) - 1, 1)]  # without the item itself
        successors[members] = members[ranked[:, np.arange(count) % ranked.shape[1]]]
    return successors


def place_shares(count: int) -> NDArray[np.float64]:
    """The probability of each place in a list of successors, proportional to 1 / place [count]."""
    shares = 1 / np.arange(1, count + 1)
    return np.asarray(shares / shares.sum(), np.float64)


def sample_places(count: int, size: int, rng: np.random.Generator) -> Rows:
    """Random places in lists of successors [size]."""
    return np.searchsorted(np.cumsum(place_shares(count))[:-1], rng.random(size), side="right")


def successor_shares(successors: Rows, items: Rows, after: Rows) -> NDArray[np.float64]:
    """The probability of items [B, K] among the successors of the last item [B]; 0 after none [B, K]."""
    shares = np.zeros(items.shape)
    for place, share in enumerate(place_shares(successors.shape[1])):
        shares += share * (items == successors[after, place][:, None])
    return np.where(after[:, None] >= 0, shares, 0.0)
