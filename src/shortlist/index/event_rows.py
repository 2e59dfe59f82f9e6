"""Rows of events by (owner, id), and the rows of each owner as a list, newest first: compiled loops over columns.

A hash table is an array of row numbers, -1 = free, with a power of two as its size. Every row is found through the
columns of the events, so the table holds no keys. An owner of -1 marks a row that was erased.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Times = NDArray[np.int64]
Ids = NDArray[np.uint64]

FREE = -1
MIX = np.uint64(0x9E3779B97F4A7C15)
FOLD = np.uint64(0xBF58476D1CE4E5B9)


def is_new(slots: Rows, owners: Rows, ids: Ids, own: Rows, keys: Ids) -> NDArray[np.bool_]:
    """Whether each event (own[i], keys[i]) is neither among the rows of the table nor earlier in this batch [B]."""
    batch = np.full(table_size(len(own)), FREE, np.int32)
    found: NDArray[np.bool_] = _is_new(slots, owners, ids, own, keys, batch)
    return found


def table_size(count: int) -> int:
    """A power of two that leaves at least half of the slots free."""
    return 1 << max((2 * max(count, 1) - 1).bit_length(), 3)


def add_rows(slots: Rows, owners: Rows, ids: Ids, first: int, stop: int) -> None:
    """Add the rows from `first` to `stop` - 1 to the table; they are not in it."""
    _add_rows(slots, owners, ids, first, stop)


def push(
    previous: Rows,
    heads: Rows,
    last_times: Times,
    last_ids: Ids,
    own: Rows,
    times: Times,
    keys: Ids,
    first: int,
) -> NDArray[np.bool_]:
    """Put the rows first, first + 1, .. in front of the lists of their owners; which are older than the newest [B]."""
    older: NDArray[np.bool_] = _push(previous, heads, last_times, last_ids, own, times, keys, first)
    return older


def walk(
    previous: Rows, times: Times, ids: Ids, head: int, floor: tuple[int, int], since_row: int, most: int
) -> Rows:
    """At most `most` rows of a list while they come after `floor`, a pair of time and id, or are >= `since_row`."""
    found: Rows = _walk(previous, times, ids, head, floor[0], np.uint64(floor[1]), since_row, most)
    return found


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@compiled
def _slot(owner, key, mask):  # type: ignore[no-untyped-def]
    mixed = (key ^ (np.uint64(owner) * MIX)) * FOLD
    mixed = (mixed ^ (mixed >> np.uint64(31))) * MIX
    return np.int64((mixed ^ (mixed >> np.uint64(29))) & np.uint64(mask))


@compiled
def _is_new(slots, owners, ids, own, keys, batch):  # type: ignore[no-untyped-def]
    new = np.ones(len(own), np.bool_)
    mask, batch_mask = len(slots) - 1, len(batch) - 1
    for i in range(len(own)):
        at = _slot(own[i], keys[i], mask)
        while slots[at] != FREE:
            if owners[slots[at]] == own[i] and ids[slots[at]] == keys[i]:
                new[i] = False
                break
            at = (at + 1) & mask
        at = _slot(own[i], keys[i], batch_mask)
        while batch[at] != FREE:
            if own[batch[at]] == own[i] and keys[batch[at]] == keys[i]:
                new[i] = False
                break
            at = (at + 1) & batch_mask
        if batch[at] == FREE:
            batch[at] = i
    return new


@compiled
def _add_rows(slots, owners, ids, first, stop):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    for row in range(first, stop):
        if owners[row] < 0:
            continue
        at = _slot(owners[row], ids[row], mask)
        while slots[at] != FREE:
            at = (at + 1) & mask
        slots[at] = row


@compiled
def _push(previous, heads, last_times, last_ids, own, times, keys, first):  # type: ignore[no-untyped-def]
    older = np.zeros(len(own), np.bool_)
    for i in range(len(own)):
        owner = own[i]
        if owner < 0:
            continue
        previous[first + i] = heads[owner]
        heads[owner] = first + i
        if times[i] > last_times[owner] or (times[i] == last_times[owner] and keys[i] > last_ids[owner]):
            last_times[owner], last_ids[owner] = times[i], keys[i]
        else:
            older[i] = True
    return older


@compiled
def _walk(previous, times, ids, head, floor_time, floor_id, since_row, most):  # type: ignore[no-untyped-def]
    count, row = 0, head
    while row >= 0 and count < most:
        after = times[row] > floor_time or (times[row] == floor_time and ids[row] > floor_id)
        if not (after or row >= since_row):
            break
        count += 1
        row = previous[row]
    rows, row = np.empty(count, np.int32), head
    for i in range(count):
        rows[i] = row
        row = previous[row]
    return rows
