"""The writer of the full-stage log: the request thread passes references, a background thread does the work."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa

from shortlist.data import Vocabulary
from shortlist.errors import ArtifactError, ConfigError
from shortlist.feedback.manifest import repair
from shortlist.feedback.parts import check_name, next_seq, remove_temporary, writer_lock
from shortlist.feedback.write.buffer import Buffer, write_buffer
from shortlist.feedback.write.from_trace import RequestMeta, from_trace
from shortlist.feedback.write.sampling import Sampling, head_kept, sampled
from shortlist.pipeline.trace import Trace
from shortlist.settings import check_fields, setting

POLL_SECONDS = 0.02  # how often the background thread looks for requests
PAUSE = 2.0  # after each trace, over the time it took: the background thread has the interpreter a third of the time
HURRY = 0.25  # share of the queue from which on it makes no pauses
MOST_PUT = (
    8  # traces in the queue while `put` waits: those of a simulation may hold hundreds of requests each
)


@dataclass(frozen=True)
class LogSettings:
    """When parts are finished and what they hold."""

    queue: int = setting(512, "Traces that wait for the writer; a full queue drops whole requests.", least=1)
    rotate_seconds: float = setting(
        60.0, "Age of the oldest unwritten request at which a part is written.", least=0
    )
    rotate_bytes: int = setting(128 << 20, "Size in memory at which a part is written.", least=1)
    head_rate: float = setting(
        1.0, "Share of requests that are logged, by a hash of their id.", least=0, most=1
    )
    score_bits: int = setting(32, "Bits of a score; 16 saves about 2 bytes per score.", least=16, most=32)
    row_group: int = setting(1 << 17, "Candidates per row group, which a reader holds in memory.", least=1)

    def __post_init__(self) -> None:
        check_fields(self, "log")
        if self.score_bits not in (16, 32):
            raise ConfigError(f"log: score_bits must be 16 or 32, got {self.score_bits}")


@dataclass(frozen=True)
class LogCounts:
    """Requests since the logger started."""

    written: int
    dropped: int  # the queue was full
    failed: int  # could not be converted or written
    skipped: int  # outside of the logged share
    last_error: str = ""


class FullStageLogger:
    """Logs traces into the folder `root`. `offer` never waits and does no input or output.

    Each process needs its own `writer` name. `close` writes what is left.
    """

    def __init__(
        self,
        root: Path | str,
        items: Vocabulary,
        users: Vocabulary | None = None,
        settings: LogSettings | None = None,
        sampling: Sampling | None = None,
        context: pa.DataType | None = None,
        writer: str = "0",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root, self.items, self.writer = Path(root), items, check_name(writer)
        self.settings, self.sampling = settings or LogSettings(), sampling or Sampling()
        self._clock, self._open = clock, True
        self._lock, self._lost = Lock(), {"dropped": 0, "skipped": 0}  # of the request threads
        self._resources = ExitStack()
        self._resources.enter_context(writer_lock(self.root, self.writer))
        self.removed_temporary = remove_temporary(self.root, self.writer)
        self.removed_bytes = repair(self.root)
        text = users is not None and pa.types.is_string(users.ids.type)
        self._buffer = Buffer(self.items, text, context, self.settings.score_bits, self.settings.row_group)
        self._buffer.seq = next_seq(self.root, self.writer)
        self._totals = dict.fromkeys(("written", "failed", "dropped", "skipped"), 0)
        self._error: Exception | None = None
        # Appending to a deque takes no lock and wakes no thread: a woken thread may take the processor of the request.
        # Its size is checked first, so several threads at once may exceed the limit by one trace each.
        self._queue: deque[tuple[Trace, RequestMeta] | Event | None] = deque()
        self._wake = Event()  # for put, flush and close only
        self._thread = Thread(target=self._work, name=f"shortlist-log-{writer}", daemon=True)
        self._thread.start()

    def offer(self, trace: Trace, meta: RequestMeta) -> bool:
        """Log the requests of a trace; False if they are dropped, or outside of the logged share."""
        if self.settings.head_rate < 1 and not bool(self._kept(meta).any()):
            return self._lose("skipped", len(meta.request_id))
        if not self._open or len(self._queue) >= self.settings.queue:
            return self._lose("dropped", len(meta.request_id))
        self._queue.append((trace, meta))
        return True

    def put(self, trace: Trace, meta: RequestMeta) -> bool:
        """Log the requests of a trace and wait for room in the queue: for simulations, not for request threads."""
        while self._open and len(self._queue) >= min(self.settings.queue, MOST_PUT):
            self._wake.set()  # no pauses: nobody else needs the interpreter
            time.sleep(POLL_SECONDS)
        return self.offer(trace, meta)

    def flush(self) -> None:
        """Wait until everything that was offered is on the disk."""
        if not self._open:
            return
        done = Event()
        self._queue.append(done)
        self._wake.set()
        done.wait()
        self._raise()

    def close(self) -> None:
        """Write what is left and end the background thread; raises if the last part could not be written."""
        if not self._open:
            return
        self._open = False
        self._queue.append(None)
        self._wake.set()
        self._thread.join()
        self._resources.close()
        self._raise()

    @property
    def counts(self) -> LogCounts:
        with self._lock:
            lost = dict(self._lost)
        totals = self._totals
        return LogCounts(
            totals["written"],
            totals["dropped"] + lost["dropped"],
            totals["failed"],
            totals["skipped"] + lost["skipped"],
            "" if self._error is None else str(self._error),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _kept(self, meta: RequestMeta) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return head_kept(np.array(meta.request_id, np.int64), self.settings.head_rate)

    def _lose(self, what: str, count: int) -> bool:
        with self._lock:
            self._lost[what] += count
        return False

    def _work(self) -> None:
        """The background thread: convert and sample until the buffer is large or old enough, then write it."""
        while True:
            entry = self._next()
            if isinstance(entry, tuple):
                began = time.perf_counter()
                self._add(*entry)
                self._pause(PAUSE * (time.perf_counter() - began))
            if entry is None:
                self._drain()
            if entry is None or isinstance(entry, Event) or self._due():
                self._write()
            if isinstance(entry, Event):
                entry.set()
            if entry is None:
                return

    def _pause(self, seconds: float) -> None:
        """Leave the interpreter to the request threads, unless requests wait or someone waits for the disk."""
        if len(self._queue) < HURRY * self.settings.queue:
            self._wake.wait(min(seconds, POLL_SECONDS))

    def _drain(self) -> None:
        """Add what other threads offered while the logger was closed."""
        while self._queue:
            entry = self._queue.popleft()
            if isinstance(entry, tuple):
                self._add(*entry)
            elif isinstance(entry, Event):
                entry.set()

    def _next(self) -> tuple[Trace, RequestMeta] | Event | bool | None:
        """The next entry of the queue; False if the buffer gets too old before one arrives."""
        while not self._queue:
            if self._due():
                return False
            if self._wake.wait(POLL_SECONDS):
                self._wake.clear()
        return self._queue.popleft()

    def _deadline(self) -> float:
        return self._buffer.began + self.settings.rotate_seconds

    def _due(self) -> bool:
        if not self._buffer.records:
            return False
        return self._buffer.nbytes >= self.settings.rotate_bytes or self._clock() >= self._deadline()

    def _add(self, trace: Trace, meta: RequestMeta) -> None:
        """Convert and sample; a trace that cannot be converted is counted and does not end the thread."""
        try:
            record = sampled(from_trace(trace, meta), self.sampling)
            context = list(meta.context) or [None] * len(record)
            kept = np.flatnonzero(self._kept(meta))
            self._buffer.add(record.take(kept), [context[row] for row in kept], self._clock())
            self._buffer.skipped += len(record) - len(kept)
        except Exception as error:  # noqa: BLE001
            self._error = error
            self._buffer.failed += len(meta.request_id)

    def _write(self) -> None:
        """Write the buffer; if that fails, its requests are counted as failed and the next part is tried."""
        buffer = self._buffer
        with self._lock:
            buffer.dropped, self._lost["dropped"] = buffer.dropped + self._lost["dropped"], 0
            buffer.skipped, self._lost["skipped"] = buffer.skipped + self._lost["skipped"], 0
        try:
            counted = write_buffer(self.root, self.writer, buffer)
            self._error = self._error if buffer.failed else None
        except Exception as error:  # noqa: BLE001
            self._error = error
            buffer.lose()
            return
        for name, count in counted.items():
            self._totals[name] += count
        buffer.clear()

    def _raise(self) -> None:
        if self._error is not None:
            raise ArtifactError(
                f"{self.root}: {self.counts.failed + self._buffer.failed} requests could not be logged, the last one "
                f"because of {type(self._error).__name__}: {self._error}; fix the cause, the log itself is complete "
                "without them"
            ) from self._error
