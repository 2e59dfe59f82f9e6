"""Interaction events as columns: user, item, time, weight."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from shortlist.data.blocks import take
from shortlist.errors import DataError

Column = NDArray[Any]

LIMIT = 2**31  # rows and positions are int32


@dataclass(frozen=True, eq=False)
class Interactions:
    """Events as equal-length columns of rows, sorted by (user, time); build with `Interactions.of`.

    Times are milliseconds since 1970, or positions if the log has only an order of events. `n_users` and `n_items` are
    the sizes of the vocabularies, so rows mean the same in every split of a log.
    """

    users: NDArray[np.int32]  # [E]
    items: NDArray[np.int32]  # [E]
    times: NDArray[np.int64]  # [E]
    weights: NDArray[np.float32]  # [E]
    n_users: int
    n_items: int
    columns: Mapping[str, Column] = field(default_factory=dict)
    examples: NDArray[np.float32] | None = (
        None  # [E] share of an event as an example, 0 = history only; None: all 1
    )

    @classmethod
    def of(
        cls,
        users: Column,
        items: Column,
        times: Column | None = None,
        weights: Column | None = None,
        n_users: int | None = None,
        n_items: int | None = None,
        columns: Mapping[str, Column] | None = None,
    ) -> "Interactions":
        """Check and sort events; without times, their position is their time."""
        _check_count(len(users))
        users, items = _rows(users, "users"), _rows(items, "items")
        times = np.arange(len(users)) if times is None else np.asarray(times)
        weights = np.ones(len(users), np.float32) if weights is None else np.asarray(weights)
        _check_lengths(
            {"users": users, "items": items, "times": times, "weights": weights, **(columns or {})}
        )
        _check_times(times)
        sizes = _size(users, n_users, "user"), _size(items, n_items, "item")
        order = by_user_then_time(users, times)
        given: list[Column] = [
            users,
            items,
            times.astype(np.int64, copy=False),
            weights.astype(np.float32, copy=False),
        ]
        del users, items, times, weights  # frees each column as soon as it is sorted
        return cls(
            _sorted(given.pop(0), order),
            _sorted(given.pop(0), order),
            _sorted(given.pop(0), order),
            _sorted(given.pop(0), order),
            *sizes,
            {name: _sorted(column, order) for name, column in (columns or {}).items()},
        )

    def __len__(self) -> int:
        return len(self.users)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """First position of each user; user u has the events starts[u]:starts[u + 1]."""
        return np.searchsorted(self.users, np.arange(self.n_users + 1, dtype=self.users.dtype))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of events of each user."""
        return np.diff(self.starts)

    @cached_property
    def popularity(self) -> NDArray[np.int64]:
        """Number of events of each item."""
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def strengths(self) -> NDArray[np.float32] | None:
        """Weights over their mean [E], which trainers use; None where all are equal, as in a log without weights.

        With `examples`, weights times these, over the mean of the events that are examples.
        """
        if not len(self):
            return None
        equal = self.weights.min() == self.weights.max()
        if not equal:
            check_weights(self.weights)
        if self.examples is None:
            return None if equal else _over_mean(self.weights, self.weights)
        weights = self.examples if equal else self.weights * self.examples
        return None if weights.min() == weights.max() > 0 else _over_mean(weights, weights[weights > 0])

    @cached_property
    def weighted_popularity(self) -> NDArray[Any]:
        """Summed strengths of the events of each item; the number of events where all weights are equal."""
        if self.strengths is None:
            return self.popularity
        return np.bincount(self.items, self.strengths, self.n_items)

    def unweighted(self) -> "Interactions":
        """The same events, each with weight 1."""
        return replace(self, weights=_frozen(np.ones(len(self), np.float32)))

    def where(self, mask: Column) -> "Interactions":
        """The events under a mask or at sorted positions; user and item rows stay valid."""
        return Interactions(
            _frozen(self.users[mask]),
            _frozen(self.items[mask]),
            _frozen(self.times[mask]),
            _frozen(self.weights[mask]),
            self.n_users,
            self.n_items,
            {name: _frozen(column[mask]) for name, column in self.columns.items()},
            None if self.examples is None else _frozen(self.examples[mask]),
        )

    def of_user(self, user: int) -> slice:
        """The positions of one user's events, oldest first."""
        return slice(int(self.starts[user]), int(self.starts[user + 1]))

    def matrix(self) -> sparse.csr_matrix:
        """Binary user x item matrix: 1 where the user interacted with the item."""
        entries = (np.ones(len(self), np.float32), (self.users, self.items))
        matrix = sparse.csr_matrix(entries, shape=(self.n_users, self.n_items))
        matrix.data[:] = 1.0
        return matrix

    def weighted_matrix(self) -> sparse.csr_matrix:
        """User x item matrix of the largest strength of each pair; the binary matrix where all weights are equal."""
        if self.strengths is None:
            return self.matrix()
        shape = (self.n_users, self.n_items)
        every = sparse.csr_matrix((self.strengths, self.items, self.starts), shape, copy=True)
        every.sort_indices()
        new = (np.diff(self.users, prepend=-1) != 0) | (np.diff(every.indices, prepend=-1) != 0)
        first = np.flatnonzero(new)  # of each pair
        largest = np.maximum.reduceat(every.data, first)
        return sparse.csr_matrix((largest, every.indices[first], np.searchsorted(first, self.starts)), shape)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all events."""
        digest = hashlib.sha256(f"{self.n_users} {self.n_items}".encode())
        columns = (self.users, self.items, self.times, self.weights)
        for column in columns if self.examples is None else (*columns, self.examples):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()[:16]


def _over_mean(weights: NDArray[np.float32], counted: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights over the mean of those that count."""
    mean = counted.mean(dtype=np.float64) if len(counted) else 1.0
    return _frozen((weights / mean).astype(np.float32))


def check_weights(weights: NDArray[np.float32], where: str = "weights") -> None:
    """Refuse weights that cannot be strengths of events: zero, negative, infinite or NaN."""
    bad = ~((weights > 0) & np.isfinite(weights))
    if not bad.any():
        return
    good = weights[~bad]
    drop = (
        f"drop those events with --min-weight {good.min():g}, add a constant to the column, or "
        if len(good)
        else ""
    )
    raise DataError(
        f"{where}: expected numbers above 0, got {int(bad.sum()):,} of {len(weights):,} that are not, the first is "
        f"{weights[bad][0]:g}; {drop}count every event once with --weights implicit"
    )


def _rows(column: Column, name: str) -> NDArray[np.int32]:
    column = np.asarray(column)
    if len(column) and not column.min() >= 0:  # also refuses NaN
        raise DataError(f"interactions: {name} must be rows 0 or above, got {column.min()}")
    if len(column) and not column.max() < LIMIT:
        raise DataError(f"interactions: {name} must be rows below 2**31, got {column.max()}")
    return column.astype(np.int32, copy=False)


def by_user_then_time(users: NDArray[np.int32], times: Column) -> NDArray[np.int32] | None:
    """The stable order by (user, time), or None if the events already have it.

    A sort by time followed by a counting sort by user, which is faster than a comparison sort by both keys.
    """
    if _ordered(users, times):
        return None
    if len(times) and bool((times[1:] < times[:-1]).any()):
        by_time = np.argsort(times, kind="stable").astype(np.int32)
        return take(by_time, _counting_order(take(users, by_time)))
    return _counting_order(users)


def _counting_order(users: NDArray[np.int32]) -> NDArray[np.int32]:
    """Positions grouped by user in their original order; a sparse transpose is a counting sort."""
    count = len(users)
    n_users = int(users.max(initial=-1)) + 1
    flags = np.broadcast_to(np.int8(1), count)
    rows = sparse.csr_matrix(
        (flags, users, np.arange(count + 1, dtype=np.int32)), shape=(count, max(n_users, 1))
    )
    order: NDArray[np.int32] = rows.tocsc().indices
    return order


def _ordered(users: NDArray[np.int32], times: Column) -> bool:
    later = users[1:] > users[:-1]
    same = users[1:] == users[:-1]
    return bool((later | (same & (times[1:] >= times[:-1]))).all())


def _sorted(column: Column, order: NDArray[np.int32] | None) -> Column:
    return _frozen(np.ascontiguousarray(column if order is None else take(column, order)))


def _frozen(column: Column) -> Column:
    column.flags.writeable = False
    return column


def _check_count(count: int) -> None:
    if count >= LIMIT:
        raise DataError(f"interactions: expected fewer than 2**31 events, got {count:,}; split the log")


def _check_lengths(columns: Mapping[str, Column]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"interactions: expected columns of one length, got {lengths}")


def _check_times(times: Column) -> None:
    """Times must fit into int64; a column that is int64 already needs no scan."""
    if times.dtype == np.int64 or times.dtype.kind not in "iufO" or not len(times):
        return
    low, high = times.min(), times.max()
    if not (low >= -(2**63) and high < 2**63):  # also refuses NaN
        value = high if low >= -(2**63) else low
        raise DataError(f"interactions: times must be finite numbers of 64 bits, got {value}; fix them")


def _size(rows: NDArray[np.int32], given: int | None, what: str) -> int:
    needed = int(rows.max(initial=-1)) + 1
    if given is not None and given < needed:
        raise DataError(f"interactions: n_{what}s is {given}, but {what} row {needed - 1} occurs")
    return needed if given is None else given
