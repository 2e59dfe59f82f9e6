"""The events behind user states: columns in the order of arrival, a list of each user, and files of both."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shortlist.data import UNKNOWN
from shortlist.errors import ArtifactError
from shortlist.index.event_rows import add_rows, is_new, push, table_size, walk
from shortlist.state.columns import GrowingArray
from shortlist.state.events.event import UserKey, user_digest
from shortlist.state.events.log_file import EVENT, Block, LogFile

Numbers = NDArray[np.int32]
Key = tuple[int, int]  # time and id of an event: the order of the events of a user

MOST_EVENTS = 2**31 - 2  # rows are numbers of 32 bits
FIRST: Key = (-1, 0)  # before every event


class EventLog:
    """Events of users by (user, event id), each once; a log belongs to one store.

    Users and items have numbers in the order of their first event. With a folder, events are in its files too: a killed
    process loses no event that `append` has returned for, and `sync` keeps them through a power failure. Only one
    process at a time has a folder open.
    """

    def __init__(self, folder: Path | str | None = None, sync: bool = False) -> None:
        self.users: list[UserKey | None] = []  # by number; None: forgotten
        self.items: list[int | str] = []
        self.forgotten: dict[int, int] = {}  # hashes of users: time of the newest event then
        self._numbers: dict[UserKey, int] = {}
        self._key_bytes = 0
        self.owner, self.item = GrowingArray(np.int32, UNKNOWN), GrowingArray(np.int32, UNKNOWN)
        self.time, self.id = GrowingArray(np.int64), GrowingArray(np.uint64)
        self._previous = GrowingArray(np.int32, UNKNOWN)
        self._heads = GrowingArray(np.int32, UNKNOWN)  # by user
        self.last_time, self.last_id = GrowingArray(np.int64, -1), GrowingArray(np.uint64)
        self._slots = np.full(table_size(0), UNKNOWN, np.int32)
        self.disordered: dict[
            int, tuple[int, Key]
        ] = {}  # users: first row in front of a later one, least key
        self._on_file = [0, 0]  # users and items whose ids are in the files
        self.identity = secrets.token_hex(8)  # which snapshots are of this log
        self._unnamed = self.identity  # until it is in the files
        self.file: LogFile | None = None
        if folder is not None:
            self.file = LogFile(Path(folder), sync)
            self.file.load(self._load)

    @property
    def size(self) -> int:
        """Number of rows, with those that were erased."""
        return len(self.owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; the events in memory stay."""
        if self.file is not None:
            self.file.close()

    def number(self, user: UserKey) -> int:
        """The number of a user, -1 without one."""
        return self._numbers.get(user, UNKNOWN)

    def user_numbers(self, users: Sequence[UserKey]) -> Numbers:
        """The numbers of users [B]; new users get one."""
        get = self._numbers.get
        found = [get(user, UNKNOWN) for user in users]
        if UNKNOWN in found:
            self._add_users(list(dict.fromkeys(one for one in users if one not in self._numbers)))
            found = [self._numbers[user] for user in users]
        return np.array(found, np.int32)

    def add_items(self, ids: Sequence[int | str]) -> None:
        """Number further items."""
        self.items += ids

    def is_new(self, users: Numbers, ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether each event is neither in the log nor earlier in this batch [B]."""
        return is_new(self._slots, self.owner.values, self.id.values, users, ids)

    def in_order(
        self, users: Numbers, times: NDArray[np.int64], ids: NDArray[np.uint64]
    ) -> NDArray[np.bool_]:
        """Whether an event of each user comes after all events of the user."""
        last, number = self.last_time.values[users], self.last_id.values[users]
        after: NDArray[np.bool_] = (times > last) | ((times == last) & (ids > number))
        return after

    def append(
        self, users: Numbers, items: Numbers, times: NDArray[np.int64], ids: NDArray[np.uint64]
    ) -> int:
        """Add events that are new, or none after an error; how many are not newer than the last event of their user."""
        first = self.size
        if first + len(users) > MOST_EVENTS:
            raise ArtifactError(f"event log: holds {first} events and cannot hold more than {MOST_EVENTS}")
        self._reserve(first + len(users))
        if self.file is not None:
            events = np.empty(len(users), EVENT)
            events["user"], events["item"], events["time"], events["id"] = users, items, times, ids
            known_users, known_items = self._on_file
            users_now, items_now = self.users[known_users:], self.items[known_items:]
            self.file.append(Block(first, events, known_users, users_now, items_now, log=self._unnamed))
            self._on_file, self._unnamed = [len(self.users), len(self.items)], ""
        return self._add(users, items, times, ids)

    def rows(self, user: int, floor: Key = FIRST, most: int = MOST_EVENTS) -> Numbers:
        """The rows of the newest `most` events of a user after `floor`, oldest first; the user must be settled."""
        head = int(self._heads.values[user])
        found = walk(self._previous.values, self.time.values, self.id.values, head, floor, MOST_EVENTS, most)
        return found[::-1]

    def rows_since(self, offset: int) -> Numbers:
        """Rows from `offset` on by (user, time, id), without erased ones."""
        rows = offset + np.flatnonzero(self.owner.values[offset:] >= 0)
        order = np.lexsort((self.id.values[rows], self.time.values[rows], self.owner.values[rows]))
        return rows[order].astype(np.int32)

    def has_events(self, user: int) -> bool:
        """Whether a user has an event in the log."""
        return bool(self._heads.values[user] >= 0)

    def with_events(self) -> Numbers:
        """The numbers of all users with events."""
        return np.flatnonzero(self._heads.values >= 0).astype(np.int32)

    def settle(self, user: int) -> Key | None:
        """Bring the events of a user into their order; the key from which on it changed, None if it did not."""
        if user not in self.disordered:
            return None
        first, least = self.disordered[user]
        head, times, ids = int(self._heads.values[user]), self.time.values, self.id.values
        floor = (least[0], least[1] - 1) if least[1] else (least[0] - 1, 2**64 - 1)
        rows = walk(self._previous.values, times, ids, head, floor, first, MOST_EVENTS)
        rest = int(self._previous.values[rows[-1]])
        rows = rows[np.lexsort((ids[rows], times[rows]))[::-1]]  # newest first
        self._previous.values[rows[:-1]] = rows[1:]
        self._previous.values[rows[-1]] = rest
        self._heads.values[user] = rows[0]
        del self.disordered[user]
        return least

    def forget(self, user: UserKey) -> None:
        """Forget a user, on the disk too, and erase the rows of the user in memory; `clean` erases those in the files.

        A hash of the id stays, with the time of the newest event of all users: a bundle may still have the user.
        """
        digest, number = user_digest(user), self.number(user)
        if number == UNKNOWN and digest in self.forgotten:
            return
        newest = int(self.time.values.max(initial=-1))
        if self.file is not None:
            # The files know a user from the first events that were written, not from those that a full disk refused.
            erased = number if number < self._on_file[0] else UNKNOWN
            empty, known = np.empty(0, EVENT), self._on_file[0]
            block = Block(
                self.size, empty, known, forgotten=(digest, newest), erased=erased, log=self._unnamed
            )
            self.file.forget(block, np.flatnonzero(self.owner.values == erased) if erased >= 0 else ())
            self._unnamed = ""
        self.forgotten[digest] = newest
        if number >= 0:
            self._erase(number)

    def add_forgotten(self, digest: int, newest: int) -> None:
        """Take over a user who was forgotten in another log."""
        if self.file is not None:
            block = Block(self.size, np.empty(0, EVENT), forgotten=(digest, newest), log=self._unnamed)
            self.file.forget(block, ())
            self._unnamed = ""
        self.forgotten[digest] = newest

    def clean(self) -> None:
        """Erase users who were forgotten from the files; after an error it can be called again."""
        if self.file is not None:
            self.file.clean()

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns of events."""
        return sum(one.nbytes for one in (self.owner, self.item, self.time, self.id, self._previous))

    @property
    def index_bytes(self) -> int:
        """Bytes of the index from ids to events."""
        return self._slots.nbytes

    @property
    def user_bytes(self) -> int:
        """Bytes of the users, their numbers and their last events."""
        columns = sum(one.nbytes for one in (self._heads, self.last_time, self.last_id))
        return columns + sys.getsizeof(self.users) + sys.getsizeof(self._numbers) + self._key_bytes

    def _add_users(self, keys: Sequence[UserKey | None]) -> None:
        known = len(self.users)
        for column in (self._heads, self.last_time, self.last_id):
            column.resize(known + len(keys))
        self.users += keys
        self._numbers |= {key: known + at for at, key in enumerate(keys) if key is not None}
        self._key_bytes += sum(map(sys.getsizeof, keys))

    def _reserve(self, size: int) -> None:
        for column in (self.owner, self.item, self.time, self.id, self._previous):
            column.reserve(size)
        if table_size(size) > len(self._slots):
            slots = np.full(table_size(size), UNKNOWN, np.int32)
            add_rows(slots, self.owner.values, self.id.values, 0, self.size)
            self._slots = slots

    def _add(self, users: Numbers, items: Numbers, times: NDArray[np.int64], ids: NDArray[np.uint64]) -> int:
        """Add events to the columns, the table and the lists; how many are not newer than the last of their user."""
        first, size = self.size, self.size + len(users)
        for column, values in ((self.owner, users), (self.item, items), (self.time, times), (self.id, ids)):
            column.resize(size)
            column.values[first:] = values
        self._previous.resize(size)
        add_rows(self._slots, self.owner.values, self.id.values, first, size)
        lists = self._previous.values, self._heads.values, self.last_time.values, self.last_id.values
        older = np.flatnonzero(push(*lists, users, times, ids, first)).tolist()
        for at in older:
            key, user = (int(times[at]), int(ids[at])), int(users[at])
            row, least = self.disordered.get(user, (first + at, key))
            self.disordered[user] = row, min(least, key)
        return len(older)

    def _load(self, blocks: Sequence[Block], erased: set[int]) -> None:
        """Add blocks of a file, each once, then erase the users who were forgotten in it."""
        for block in blocks:
            if block.users and block.first_user != len(self.users):
                raise ArtifactError(
                    f"event log: a block begins with user {block.first_user}, expected {len(self.users)}; restore the "
                    "missing file from a copy"
                )
            self._add_users(block.users)
            self.items += block.items
            if block.forgotten is not None:
                digest, newest = block.forgotten
                self.forgotten[digest] = newest
            if block.log:
                self.identity, self._unnamed = block.log, ""
        self._on_file = [len(self.users), len(self.items)]
        events = np.concatenate([block.events for block in blocks]) if blocks else np.empty(0, EVENT)
        columns = [np.ascontiguousarray(events[name]) for name in ("user", "item", "time", "id")]
        self._check(*columns)
        self._reserve(self.size + len(events))
        self._add(*columns)
        for number in erased:
            self._erase(number)

    def _check(
        self, users: Numbers, items: Numbers, times: NDArray[np.int64], ids: NDArray[np.uint64]
    ) -> None:
        known = users >= 0
        wrong = (users >= len(self.users)) | (
            known & ((items < 0) | (items >= len(self.items)) | (times < 0))
        )
        if wrong.any():
            raise ArtifactError(
                f"event log: an event has the user {users[wrong][0]} and the item {items[wrong][0]}, expected numbers "
                f"below {len(self.users)} and {len(self.items)}; the files are damaged or not of one log"
            )

    def _erase(self, number: int) -> None:
        rows = np.flatnonzero(self.owner.values == number)
        for column in (self.owner, self.item):
            column.values[rows] = UNKNOWN
        for values in (self.time, self.id):
            values.values[rows] = 0
        self._heads.values[number], self.last_time.values[number], self.last_id.values[number] = (
            UNKNOWN,
            -1,
            0,
        )
        self.disordered.pop(number, None)
        key, self.users[number] = self.users[number], None
        if key is not None:
            del self._numbers[key]
