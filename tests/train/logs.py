"""Small logs that trainers are tested on."""

from collections.abc import Sequence

import numpy as np

from shortlist.data import Interactions


def log(*sequences: Sequence[int], n_items: int) -> Interactions:
    """One user for every sequence of items."""
    users = np.repeat(np.arange(len(sequences)), [len(one) for one in sequences])
    items = np.concatenate([np.asarray(one, np.int64) for one in sequences])
    return Interactions.of(users, items, n_users=len(sequences), n_items=n_items)


def nothing(n_users: int = 2, n_items: int = 3) -> Interactions:
    """A log without an event."""
    return Interactions.of(np.empty(0, int), np.empty(0, int), n_users=n_users, n_items=n_items)


def chains() -> Interactions:
    """Two kinds of users who walk their own ten items over and over."""
    return log(*([(step % 10) + 10 * (user % 2) for step in range(20)] for user in range(40)), n_items=20)


def tastes(seed: int = 0) -> Interactions:
    """Users of even rows meet items 0..9, those of odd rows 10..19, six each and in no order."""
    random = np.random.default_rng(seed)
    return log(*(10 * (user % 2) + random.permutation(10)[:6] for user in range(40)), n_items=20)
