"""Small logs for tests of trainers."""

from collections.abc import Sequence

import numpy as np

from shortlist.data import Interactions


def log(*sequences: Sequence[int], n_items: int) -> Interactions:
    """One user for every sequence of items."""
    users = np.repeat(np.arange(len(sequences)), [len(sequence) for sequence in sequences])
    items = np.concatenate([np.asarray(sequence, np.int64) for sequence in sequences])
    return Interactions.of(users, items, n_users=len(sequences), n_items=n_items)


def nothing(n_users: int = 2, n_items: int = 3) -> Interactions:
    """A log without events."""
    return Interactions.of(np.empty(0, int), np.empty(0, int), n_users=n_users, n_items=n_items)


def chains() -> Interactions:
    """Users repeat one of two cycles of ten items."""
    return log(*([(step % 10) + 10 * (user % 2) for step in range(20)] for user in range(40)), n_items=20)


def tastes(seed: int = 0) -> Interactions:
    """Users in even rows interact with six of the items 0..9, those in odd rows with six of 10..19, in random order."""
    random = np.random.default_rng(seed)
    return log(*(10 * (user % 2) + random.permutation(10)[:6] for user in range(40)), n_items=20)
