"""Events of users: what one is, and the order of the events of a user."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Vocabulary

CLOCK_MS = 5 * 60_000  # how far the clock of a client may be ahead
LATEST_MS = 1 << 42  # the year 2109
EXPECTED = {
    "bad_ids": "expected a user_id and an item_id that are whole numbers or text, and an event_id that is a whole "
    "number of 64 bits without sign or text",
    "unknown_items": "expected an item of the catalogue",
    "bad_times": "expected times in milliseconds since 1970",
    "from_the_future": "expected a time_ms that is not after now_ms; check the clock of the client",
}
"""What was expected, by the reason of a rejection."""


@dataclass(frozen=True, slots=True)
class UserEvent:
    """A user interacted with an item; an event with the same `event_id` of the same user counts once."""

    user_id: int | str
    item_id: int | str
    time_ms: int
    event_id: int | str


@dataclass(frozen=True)
class RejectedEvent:
    """An event that is left out, by its place in the batch."""

    index: int
    code: str
    detail: str


@dataclass(frozen=True, eq=False)
class CheckedEvents:
    """The valid events of a batch as columns, in the order of the batch."""

    users: list[int | str]
    items: NDArray[np.int32]  # rows of the catalogue
    times: NDArray[np.int64]
    ids: NDArray[np.uint64]
    rejected: tuple[RejectedEvent, ...]


def checked(events: Sequence[UserEvent], items: Vocabulary, now_ms: int) -> CheckedEvents:
    """The valid events, and those that are none with the first reason."""
    users, rows, times, ids = list[int | str](), list[int](), list[int](), list[int]()
    rejected = list[RejectedEvent]()
    for index, event in enumerate(events):
        row = items.row(event.item_id) if _is_id(event.item_id) else UNKNOWN
        key = event_key(event.event_id)
        code = _problem(event, row, key, now_ms)
        if code or key is None:
            rejected.append(RejectedEvent(index, code, EXPECTED[code]))
            continue
        users.append(event.user_id)
        rows.append(row)
        times.append(event.time_ms)
        ids.append(key)
    columns = np.array(rows, np.int32), np.array(times, np.int64), np.array(ids, np.uint64)
    return CheckedEvents(users, *columns, tuple(rejected))


def event_key(event_id: object) -> int | None:
    """An event id as a number of 64 bits: text is hashed; None for what is no id."""
    if isinstance(event_id, str):
        return int.from_bytes(hashlib.blake2b(event_id.encode(), digest_size=8).digest(), "little")
    if isinstance(event_id, bool) or not isinstance(event_id, int | np.integer):
        return None
    return int(event_id) if 0 <= event_id < 1 << 64 else None


def _problem(event: UserEvent, row: int, key: int | None, now_ms: int) -> str:
    """The reason why an event is none, empty where it is one."""
    if key is None or event.event_id == "" or not _is_id(event.user_id) or not _is_id(event.item_id):
        return "bad_ids"
    if row == UNKNOWN:
        return "unknown_items"
    time = event.time_ms
    if isinstance(time, bool) or not isinstance(time, int | np.integer) or not 0 <= time <= LATEST_MS:
        return "bad_times"
    return "from_the_future" if time > now_ms + CLOCK_MS else ""


def _is_id(value: object) -> bool:
    return isinstance(value, int | str | np.integer) and not isinstance(value, bool) and value != ""
