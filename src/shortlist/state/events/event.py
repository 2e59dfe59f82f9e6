"""Events of users: what one is, and which of a batch are valid."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.errors import DataError

UserKey: TypeAlias = int | str

MOST_TEXT = 512  # characters of an id
CLOCK_MS = 5 * 60_000  # how far the clock of a client may be ahead
LATEST_MS = 1 << 42  # the year 2109
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which is in no file
EXPECTED = {
    "bad_ids": "expected a user_id and an item_id that are whole numbers or text, and an event_id that is a whole "
    f"number of 64 bits without sign or text; text has at most {MOST_TEXT} characters, all of them whole",
    "unknown_items": "expected an item of the catalogue",
    "bad_times": "expected times in milliseconds since 1970",
    "from_the_future": "expected a time_ms that is not after now_ms; check the clock of the client",
    "before_the_bundle": "expected a time_ms after the events that the bundle was made from",
    "before_forgotten": "expected a time_ms after the newest event at the time when the user was forgotten",
}
"""What was expected, by the reason of a rejection."""


NOBODY: Mapping[int, int] = {}


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

    users: list[UserKey]
    items: NDArray[np.int32]  # rows of the catalogue
    times: NDArray[np.int64]
    ids: NDArray[np.uint64]
    rejected: tuple[RejectedEvent, ...] = ()

    def __len__(self) -> int:
        return len(self.users)


def checked(
    events: Sequence[UserEvent],
    items: Vocabulary,
    now_ms: int,
    since_ms: int = 0,
    forgotten: Mapping[int, int] = NOBODY,
) -> CheckedEvents:
    """The valid events, and those that are none with the first reason.

    `forgotten` has the `user_digest` of users who were forgotten, with the time of the newest event then: an event up
    to it may be one that was sent again.
    """
    users, rows, times, ids = list[UserKey](), list[int](), list[int](), list[int]()
    rejected = list[RejectedEvent]()
    latest = _latest(now_ms)
    for index, event in enumerate(events):
        row = items.row(event.item_id) if _is_id(event.item_id) else UNKNOWN
        key = event_key(event.event_id)
        code = _problem(event, row, key, since_ms, latest, forgotten)
        if code or key is None:
            rejected.append(RejectedEvent(index, code, EXPECTED[code]))
            continue
        users.append(user_key(event.user_id))
        rows.append(row)
        times.append(event.time_ms)
        ids.append(key)
    columns = np.array(rows, np.int32), np.array(times, np.int64), np.array(ids, np.uint64)
    return CheckedEvents(users, *columns, tuple(rejected))


def checked_columns(
    users: Sequence[UserKey],
    item_rows: NDArray[np.integer[Any]],
    times: NDArray[np.integer[Any]],
    ids: NDArray[np.integer[Any]],
    n_items: int,
    now_ms: int,
    since_ms: int = 0,
    forgotten: Mapping[int, int] = NOBODY,
) -> CheckedEvents:
    """The same for columns: item rows, -1 = unknown, and event ids that are numbers."""
    columns = (np.asarray(item_rows), np.asarray(times), np.asarray(ids))
    if any(one.shape != (len(users),) or one.dtype.kind not in "iu" for one in columns):
        raise DataError(
            f"states: expected columns of whole numbers for {len(users)} events, got "
            + ", ".join(f"{one.shape} {one.dtype}" for one in columns)
        )
    rows, times, ids = columns
    signed = ids.dtype.kind == "i"
    reasons = {
        "bad_ids": ids < 0 if signed else np.zeros(len(ids), bool),
        "unknown_items": (rows < 0) | (rows >= n_items),
        "bad_times": (times < 0) | (times > LATEST_MS),
        "from_the_future": times > _latest(now_ms),
        "before_the_bundle": times < since_ms,
    }
    keys = [user_key(user) if _is_id(user) else None for user in users]
    if forgotten:
        ends = {key: _end_of(key, forgotten) for key in set(keys)}
        reasons["before_forgotten"] = times <= np.array([ends[key] for key in keys], np.int64)
    bad = np.logical_or.reduce(list(reasons.values()))
    if not bad.any() and None not in keys:
        valid = [key for key in keys if key is not None]
        return CheckedEvents(valid, rows.astype(np.int32), times.astype(np.int64), ids.astype(np.uint64))
    reasons["bad_ids"] = reasons["bad_ids"] | np.array([key is None for key in keys])
    bad |= reasons["bad_ids"]
    codes = [next(code for code, wrong in reasons.items() if wrong[index]) for index in np.flatnonzero(bad)]
    rejected = [
        RejectedEvent(int(index), code, EXPECTED[code])
        for index, code in zip(np.flatnonzero(bad), codes, strict=True)
    ]
    kept = np.flatnonzero(~bad)
    valid = [key for index in kept.tolist() if (key := keys[index]) is not None]
    return CheckedEvents(
        valid,
        rows[kept].astype(np.int32),
        times[kept].astype(np.int64),
        ids[kept].astype(np.uint64),
        tuple(rejected),
    )


def event_key(event_id: object) -> int | None:
    """An event id as a number of 64 bits; None for what is no id.

    7 and "7" are one id, as with users; other text is hashed.
    """
    if isinstance(event_id, str):
        if NUMBER.fullmatch(event_id) and int(event_id) < 1 << 64:
            return int(event_id)
        return _hashed(event_id) if 0 < len(event_id) <= MOST_TEXT else None
    if isinstance(event_id, bool) or not isinstance(event_id, int | np.integer):
        return None
    return int(event_id) if 0 <= event_id < 1 << 64 else None


def user_key(user_id: object) -> UserKey:
    """One key for 5 and "5", which are one user; "05" is another."""
    if type(user_id) is int:
        return user_id
    if isinstance(user_id, str):
        return int(user_id) if WHOLE.fullmatch(user_id) else user_id
    if isinstance(user_id, int | np.integer) and not isinstance(user_id, bool):
        return int(user_id)
    raise DataError(f"states: expected a user_id that is a whole number or text, got {user_id!r}")


def user_digest(user_id: UserKey) -> int:
    """A hash of a user that is kept after the user was forgotten."""
    return _hashed(f"user {user_key(user_id)}")


def _latest(now_ms: object) -> int:
    """The latest time of an event; NaN would let every time pass."""
    if isinstance(now_ms, bool) or not isinstance(now_ms, int | np.integer):
        raise DataError(
            f"states: expected now_ms in whole milliseconds since 1970, got {now_ms!r}; give int(1000 * time.time())"
        )
    return int(now_ms) + CLOCK_MS


def _hashed(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _problem(
    event: UserEvent, row: int, key: int | None, since_ms: int, latest: int, forgotten: Mapping[int, int]
) -> str:
    """The reason why an event is none, empty where it is one."""
    if key is None or not _is_id(event.user_id) or not _is_id(event.item_id):
        return "bad_ids"
    if row == UNKNOWN:
        return "unknown_items"
    time = event.time_ms
    if isinstance(time, bool) or not isinstance(time, int | np.integer) or not 0 <= time <= LATEST_MS:
        return "bad_times"
    if time > latest:
        return "from_the_future"
    if time < since_ms:
        return "before_the_bundle"
    return "before_forgotten" if forgotten and time <= _end_of(user_key(event.user_id), forgotten) else ""


def _end_of(user: UserKey | None, forgotten: Mapping[int, int]) -> int:
    """The time up to which events of a user were forgotten, -1 without one."""
    return -1 if user is None else forgotten.get(user_digest(user), -1)


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= MOST_TEXT and not SURROGATE.search(value)
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
