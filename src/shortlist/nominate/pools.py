"""Item pools: which items each nominator may return."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Pools:
    """A row of items for each nominator; every pool has an item and every item is in a pool."""

    matrix: Bools  # [N, A]

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or 0 in self.matrix.shape:
            raise ConfigError(
                f"pools: expected a matrix of nominators by items, got the shape {self.matrix.shape}"
            )
        empty = np.flatnonzero(~self.matrix.any(1))
        if len(empty):
            raise ConfigError(
                f"pools: expected at least one item for every nominator, got none for {_some(empty)}; "
                "use fewer nominators, or give each an item"
            )
        left_out = np.flatnonzero(~self.matrix.any(0))
        if len(left_out):
            raise ConfigError(
                f"pools: expected every item in a pool, got {len(left_out)} items in none ({_some(left_out)}); "
                "no nominator could ever return them"
            )

    @classmethod
    def of(cls, pools: Sequence[Sequence[int]], n_items: int | None = None) -> "Pools":
        """Pools from a list of items for each nominator."""
        every = [item for pool in pools for item in pool]
        highest = max(every, default=-1)
        size = highest + 1 if n_items is None else n_items
        if every and (min(every) < 0 or highest >= size):
            wrong = min(every) if min(every) < 0 else highest
            raise ConfigError(f"pools: expected items from 0 to {size - 1}, got {wrong}")
        matrix = np.zeros((len(pools), size), dtype=np.bool_)
        for row, pool in enumerate(pools):
            matrix[row, list(pool)] = True
        return cls(matrix)

    @property
    def n_nominators(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_items(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Items of each pool."""
        sizes: NDArray[np.int64] = self.matrix.sum(1)
        return sizes

    @property
    def overlap(self) -> int:
        """How often items are in more than one pool."""
        return int((self.matrix.sum(0) - 1).clip(0).sum())

    @property
    def partition(self) -> bool:
        """Whether every item is in exactly one pool."""
        return self.overlap == 0

    def padded(self) -> tuple[NDArray[np.int64], Bools]:
        """Items of each pool in ascending order [N, P], and which places hold one."""
        sizes = self.sizes
        valid = np.arange(sizes.max())[None] < sizes[:, None]
        items = np.zeros(valid.shape, dtype=np.int64)
        items[valid] = self.matrix.nonzero()[1]
        return items, valid


def make_pools(n_items: int, n_nominators: int, *, seed: int) -> Pools:
    """Random pools of sizes that differ by one at most.

    Without more nominators than items they are a partition. With more, the first have one item each, the others one
    drawn without replacement, so that overlap is the least possible.
    """
    if n_items < 1 or n_nominators < 1:
        raise ConfigError(
            f"pools: expected at least one item and one nominator, got {n_items} and {n_nominators}"
        )
    random = np.random.default_rng([seed, n_items, n_nominators])
    matrix = np.zeros((n_nominators, n_items), dtype=np.bool_)
    matrix[np.arange(n_items) % n_nominators, random.permutation(n_items)] = True
    for first in range(n_items, n_nominators, n_items):
        more = min(n_items, n_nominators - first)
        matrix[first + np.arange(more), random.permutation(n_items)[:more]] = True
    return Pools(matrix)


def by_block(order: NDArray[np.integer], n_nominators: int) -> Pools:
    """Consecutive items of an order together, such as the most popular ones; the worst case for coverage."""
    return _assigned(order, np.arange(len(order)) * n_nominators // max(len(order), 1), n_nominators)


def by_popularity_stripe(order: NDArray[np.integer], n_nominators: int) -> Pools:
    """Items of an order in turn, so that every pool has as many popular ones."""
    return _assigned(order, np.arange(len(order)) % max(n_nominators, 1), n_nominators)


def by_feature_cluster(
    features: NDArray[np.floating], n_nominators: int, *, seed: int, rounds: int = 20
) -> Pools:
    """Items with near feature vectors together: k-means with clusters of equal size up to one."""
    random = np.random.default_rng(seed)
    points = np.asarray(features, dtype=np.float64)
    if points.ndim != 2 or not np.isfinite(points).all() or not 1 <= n_nominators <= len(points):
        raise ConfigError(
            f"pools: expected finite features [A, F] of at least {n_nominators} items and a nominator, got the shape "
            f"{points.shape}"
        )
    centres = points[random.choice(len(points), n_nominators, replace=False)]
    owner = np.zeros(len(points), dtype=np.int64)
    for _ in range(rounds):
        owner = _balanced(((points[:, None] - centres[None]) ** 2).sum(-1))
        centres = np.stack([points[owner == row].mean(0) for row in range(n_nominators)])
    return _assigned(np.arange(len(points)), owner, n_nominators)


def _balanced(distance: NDArray[np.float64]) -> NDArray[np.int64]:
    """The nearest centre with room left, items with the clearest choice first."""
    n_items, n_pools = distance.shape
    room = np.full(n_pools, n_items // n_pools)
    room[: n_items % n_pools] += 1
    ordered = np.sort(distance, axis=1)
    owner = np.zeros(n_items, dtype=np.int64)
    for item in np.argsort(ordered[:, 0] - ordered[:, min(1, n_pools - 1)], kind="stable"):
        owner[item] = np.argmin(np.where(room > 0, distance[item], np.inf))
        room[owner[item]] -= 1
    return owner


def _assigned(items: NDArray[np.integer], owner: NDArray[np.integer], n_nominators: int) -> Pools:
    if n_nominators < 1 or not np.array_equal(np.sort(items), np.arange(len(items))):
        raise ConfigError(
            f"pools: expected a nominator and an order of the items 0 to {len(items) - 1}, each once, got "
            f"{n_nominators} nominators and {len(np.unique(items))} different items"
        )
    matrix = np.zeros((n_nominators, len(items)), dtype=np.bool_)
    matrix[owner, items] = True
    return Pools(matrix)


def _some(rows: NDArray[np.integer]) -> str:
    shown = ", ".join(map(str, rows[:5]))
    return shown if len(rows) <= 5 else f"{shown}, ..."
