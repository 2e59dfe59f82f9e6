"""The writer of feedback events: durable when `append` returns, parts of the log when enough have come."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from shortlist.feedback.events.append import append_events
from shortlist.feedback.events.columns import COLUMNS, EXPECTED, rejected_rows, typed
from shortlist.feedback.events.spool import Spool, left_spools
from shortlist.feedback.parts import check_name
from shortlist.feedback.schema import as_id

ROTATE_EVENTS = 1 << 16  # rows of a spool; it is read into memory when it becomes a part
LOOKS = 4  # how often the background thread looks at the age of a spool, per its largest age


@dataclass(frozen=True)
class RejectedEvent:
    """A row that is not an event."""

    index: int
    code: str
    detail: str


class EventWriter:
    """Appends events to the log in the folder `root`; each process needs its own `writer` name.

    Rows are in a spool on the disk when `append` returns. A background thread turns spools into parts. After a crash,
    the next writer and `log join` do that; an event that is in both then counts once.
    """

    def __init__(
        self,
        root: Path | str,
        text_items: bool,
        writer: str = "0",
        rotate_seconds: float = 60.0,
        rotate_events: int = ROTATE_EVENTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root, self.text_items, self.writer = Path(root), text_items, check_name(f"events_{writer}")
        self.rotate_seconds, self.rotate_events, self._clock = rotate_seconds, rotate_events, clock
        self.root.mkdir(parents=True, exist_ok=True)
        self.recovered = recover_events(self.root, self.writer)
        self.error, self._open = "", True  # the error is that of the last rotation
        self._spool, self._rows, self._began = Spool.new(self.root, self.writer), 0, 0.0
        self._full: list[Spool] = []  # spools that become parts
        self._lock, self._rotating, self._stop = Lock(), Lock(), Event()
        self._thread = Thread(target=self._work, name=f"shortlist-{self.writer}", daemon=True)
        self._thread.start()

    def append(self, events: Sequence[Mapping[str, Any]], now_ms: int) -> tuple[RejectedEvent, ...]:
        """Write events, and return those that are none and are left out.

        The keys are those of the table, without ingest_ts_ms, which is `now_ms`.
        """
        if not events:
            return ()
        table = self._table(events, now_ms)
        rejected = _explained(rejected_rows(table))
        out = {one.index for one in rejected}
        rows = [row for index, row in enumerate(table.to_pylist()) if index not in out]
        with self._lock:
            if rows:
                self._spool.append(rows)
                self._began = self._began if self._rows else self._clock()
                self._rows += len(rows)
        if self._due():
            self._stop.set()  # wakes the background thread
        return rejected

    def rotate(self) -> None:
        """Turn everything that was appended into parts of the log; what fails is tried again later."""
        with self._rotating:
            self._swap()
            try:
                while self._full:
                    _to_parts(self.root, self._full[0], self.writer)
                    self._full.pop(0).remove()
                self.error = ""
            except Exception as error:  # noqa: BLE001
                self.error = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Write what is left and end the background thread; events that cannot become parts stay in their spool."""
        self._open = False
        self._stop.set()
        self._thread.join()
        self.rotate()
        with ExitStack() as closing:
            closing.callback(self._spool.remove)
            for spool in self._full:
                closing.callback(spool.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _table(self, events: Sequence[Mapping[str, Any]], now_ms: int) -> pa.Table:
        """The columns of the log; an item id that the catalogue cannot have is null."""
        kind = pa.string() if self.text_items else pa.int64()
        columns = {name: pa.array([row.get(name) for row in events]) for name in ("event", "event_ts_ms")}
        ids = {
            "request_id": pa.array([as_id(row.get("request_id"), text=False) for row in events], pa.int64()),
            "item_id": pa.array([as_id(row.get("item_id"), self.text_items) for row in events], kind),
        }
        value = pa.array([row.get("value") or 0.0 for row in events], pa.float32())
        return typed(pa.table(columns | ids | {"value": value}), now_ms)

    def _due(self) -> bool:
        if not self._rows and not self._full:
            return False
        return self._rows >= self.rotate_events or self._clock() >= self._began + self.rotate_seconds

    def _swap(self) -> None:
        """Begin a new spool if the current one has rows."""
        with self._lock:
            if self._rows:
                fresh = Spool.new(self.root, self.writer)
                self._full.append(self._spool)
                self._spool, self._rows = fresh, 0

    def _work(self) -> None:
        while self._open:
            self._stop.wait(max(self.rotate_seconds / LOOKS, 0.01))
            self._stop.clear()
            if self._open and self._due():
                self.rotate()


def recover_events(root: Path, writer: str = "events") -> int:
    """Turn the spools that killed writers left into parts of the log; the number of events."""
    count = 0
    for spool in left_spools(root):
        count += _to_parts(root, spool, writer)
        spool.remove()
    return count


def _to_parts(root: Path, spool: Spool, writer: str) -> int:
    """Append the rows of a spool to the log; a row of another version that does not fit is counted there."""
    rows = spool.rows()
    if not rows:
        return 0
    table = pa.table({name: pa.array([row.get(name) for row in rows]) for name in COLUMNS})
    return append_events(root, table, writer=writer).written


def _explained(reasons: Mapping[str, Any]) -> tuple[RejectedEvent, ...]:
    found = [(int(row), kind) for kind, bad in reasons.items() for row in np.flatnonzero(bad)]
    return tuple(RejectedEvent(row, kind, EXPECTED[kind]) for row, kind in sorted(found))
