"""What a bundle knows of users and items, in the numbers of an event log."""

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.state.columns import GrowingArray
from shortlist.state.events.event import UserKey, user_digest
from shortlist.state.events.log import FIRST, EventLog, Key
from shortlist.state.histories import UserHistories

Items = NDArray[np.int32]
Rows = NDArray[np.int64]


def rows_fingerprint(users: Vocabulary, items: Vocabulary) -> str:
    """A hash of the users and items that rows are numbers of."""
    return f"{users.fingerprint} {items.fingerprint}"


class BundleUsers:
    """The users, items and histories of a bundle beside an event log.

    Events before `since_ms` are in the histories, so those of the log are left out. A user who was ever forgotten is no
    user of a bundle, whenever it was made: all that counts are the events in the log, which came later.
    """

    def __init__(
        self, users: Vocabulary, items: Vocabulary, histories: UserHistories, log: EventLog, since_ms: int = 0
    ) -> None:
        self.users, self.items, self.histories, self.log = users, items, histories, log
        self.floor: Key = (since_ms - 1, 2**64 - 1)  # events up to this time and id are in the histories
        self._starts = histories.starts.numpy()
        self._items = histories.items.numpy()
        self._user_rows = GrowingArray(np.int32, UNKNOWN)  # by number of the user
        self._item_rows = GrowingArray(np.int32, UNKNOWN)  # by number of the item
        self._item_numbers = np.full(len(items), UNKNOWN, np.int32)  # by row
        self._forgotten = self._find_forgotten()

    def row(self, key: UserKey) -> int:
        """The row of a user, -1 for one who is not in the bundle or was forgotten."""
        row = self.users.row(key)
        return UNKNOWN if row in self._forgotten else row

    def user_rows(self, numbers: NDArray[np.integer]) -> Rows:
        """The rows of users [U] by their numbers in the log."""
        known = len(self._user_rows)
        if known < len(self.log.users):
            self._user_rows.resize(len(self.log.users))
            new = self.log.users[known:]
            self._user_rows.values[known:] = [UNKNOWN if key is None else self.row(key) for key in new]
        rows: Rows = self._user_rows.values[numbers].astype(np.int64)
        return rows

    def floor_of(self, number: int) -> Key:
        """The time and id up to which the events of a user count as part of the bundle, by the number in the log."""
        key, gone = self.log.users[number], self.log.forgotten
        return FIRST if gone and key is not None and user_digest(key) in gone else self.floor

    def item_rows(self, numbers: NDArray[np.integer]) -> Items:
        """The rows of items [E] by their numbers in the log, -1 = not in the catalogue."""
        known = len(self._item_rows)
        if known < len(self.log.items):
            self._item_rows.resize(len(self.log.items))
            rows = self.items.rows(self.log.items[known:])
            self._item_rows.values[known:] = rows
            found = np.flatnonzero(rows >= 0)
            self._item_numbers[rows[found]] = known + found
        items: Items = self._item_rows.values[numbers]
        return items

    def item_numbers(self, rows: Items) -> Items:
        """The numbers of items [E] in the log, which learns new ones."""
        numbers: Items = self._item_numbers[rows]
        new = np.unique(rows[numbers == UNKNOWN])
        if not len(new):
            return numbers
        self.item_rows(np.zeros(0, np.int64))  # those that another bundle added
        new = new[self._item_numbers[new] == UNKNOWN]
        self.log.add_items(self.items.ids_of(new))
        self.item_rows(np.zeros(0, np.int64))
        numbers = self._item_numbers[rows]
        return numbers

    def history(self, row: int) -> Items:
        """The items of a user of the bundle, oldest first; none for -1."""
        if not 0 <= row < len(self._starts) - 1:
            return np.zeros(0, np.int32)
        items = self._items[self._starts[row] : self._starts[row + 1]]
        kept: Items = items[(items >= 0) & (items < len(self.items))].astype(np.int32)
        return kept

    def lengths(self, rows: Rows) -> Rows:
        """The lengths of the histories of users of the bundle [U]; 0 for -1."""
        known = (self._items >= 0) & (self._items < len(self.items))
        before = np.concatenate([[0], known.cumsum()])[self._starts]
        there = (rows >= 0) & (rows < len(self._starts) - 1)
        at = np.where(there, rows, 0)
        return np.where(there, before[np.minimum(at + 1, len(before) - 1)] - before[at], 0)

    def counts(self) -> Rows:
        """The number of items of each user of the log [U], in the bundle and after it."""
        log, count = self.log, len(self.log.users)
        rows = np.flatnonzero(log.owner.values >= 0)
        owners, times, floors = log.owner.values[rows], log.time.values[rows], np.full(count, self.floor[0])
        early = np.unique(owners[times <= self.floor[0]]) if log.forgotten else ()
        for user in map(int, early):
            floors[user] = self.floor_of(user)[0]
        later = (times > floors[owners]) & (self.item_rows(log.item.values[rows]) >= 0)
        live = np.bincount(owners[later], minlength=count)
        return self.lengths(self.user_rows(np.arange(count))) + live

    def forget(self, key: UserKey) -> None:
        """Know nothing of a user any more."""
        row = self.users.row(key)
        if row != UNKNOWN:
            self._forgotten.add(row)

    @property
    def forgotten(self) -> list[int | str]:
        """Users of the bundle who were forgotten."""
        return self.users.ids_of(sorted(self._forgotten))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of users, items and histories."""
        digest = hashlib.blake2b(rows_fingerprint(self.users, self.items).encode(), digest_size=8)
        for part in (self._starts, self._items):
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers of users; those of items do not grow with the users."""
        return self._user_rows.nbytes

    def _find_forgotten(self) -> set[int]:
        gone = self.log.forgotten
        if not gone:
            return set()
        ids: Sequence[int | str] = self.users.ids.to_pylist()
        return {row for row, user in enumerate(ids) if user_digest(user) in gone}
