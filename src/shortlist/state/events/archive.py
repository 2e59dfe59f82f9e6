"""What leaves an event log when a bundle has its events: a table of them, and a log without them."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from shortlist.errors import ArtifactError
from shortlist.state.events.event import user_digest
from shortlist.state.events.log import EventLog

EVENTS = "events"  # folder of the log in that of a service
BLOCK = 1 << 16  # events at a time


def event_table(log: EventLog) -> pa.Table:
    """All events in the order of arrival: user and item as text, time in milliseconds since 1970."""
    rows = np.flatnonzero(log.owner.values >= 0)
    columns = (log.users, log.owner.values), (log.items, log.item.values)
    users, items = (
        pa.array([None if one is None else str(one) for one in ids], pa.string()).take(
            pa.array(numbers[rows])
        )
        for ids, numbers in columns
    )
    return pa.table({"user": users, "item": items, "time": pa.array(log.time.values[rows])})


def trim_log(source: Path | str, target: Path | str, since_ms: int) -> int:
    """Write a log without the events before `since_ms`, which a bundle has; how many events were left out.

    It has all users who were forgotten, and all their later events, which count beside no bundle.
    """
    with EventLog(source) as old, EventLog(target) as new:
        if new.size or new.forgotten:
            raise ArtifactError(
                f"{target}: expected a folder without events, got {new.size}; give another one"
            )
        for digest, newest in old.forgotten.items():
            new.add_forgotten(digest, newest)
        there = old.owner.values >= 0
        kept = there & ((old.time.values >= since_ms) | np.isin(old.owner.values, _again(old)))
        rows = np.flatnonzero(kept)
        new.add_items(old.items)
        for at in range(0, len(rows), BLOCK):
            _copy(old, new, rows[at : at + BLOCK])
        return int(there.sum()) - len(rows)


def _again(log: EventLog) -> list[int]:
    """The numbers of users who came again after they were forgotten."""
    if not log.forgotten:
        return []
    return [
        at for at, user in enumerate(log.users) if user is not None and user_digest(user) in log.forgotten
    ]


def _copy(old: EventLog, new: EventLog, rows: np.ndarray) -> None:
    keys = [old.users[owner] for owner in old.owner.values[rows].tolist()]
    users = new.user_numbers([key for key in keys if key is not None])
    new.append(users, old.item.values[rows], old.time.values[rows], old.id.values[rows])
