"""The log of the requests that a recommender answers: ids, times and what the pipeline says of itself."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import pyarrow as pa

from shortlist.feedback.schema import as_id
from shortlist.feedback.write.policy import request_meta
from shortlist.feedback.write.request_ids import RequestIds, free_writer
from shortlist.feedback.write.sampling import Sampling
from shortlist.feedback.write.writer import FullStageLogger, LogCounts, LogSettings
from shortlist.grammar import Pipeline
from shortlist.pipeline import Recommender, Trace

Id = int | str


@dataclass(frozen=True)
class LogTo:
    """The folder of a log, and what is written into it."""

    root: str
    settings: LogSettings = field(default_factory=LogSettings)
    sampling: Sampling = field(default_factory=Sampling)


class RequestLog:
    """The open log of one process; several processes may write into one folder. `close` writes what is left."""

    def __init__(self, to: LogTo, recommender: Recommender, clock: Callable[[], float] = time.time) -> None:
        items, users = recommender.catalog.vocabulary, recommender.users
        self._version, self._clock, self._lock = recommender.about.version, clock, Lock()
        self.text_items = bool(pa.types.is_string(items.ids.type))
        context = pa.struct([("history", pa.list_(pa.string() if self.text_items else pa.int64()))])

        def writer(number: int) -> FullStageLogger:
            name = f"w{number}"
            return FullStageLogger(to.root, items, users, to.settings, to.sampling, context, writer=name)

        number, self.writer = free_writer(Path(to.root), writer)
        self._ids = RequestIds(number)

    def offer(
        self,
        trace: Trace,
        pipeline: Pipeline,
        users: Sequence[Id | None],
        histories: Sequence[Sequence[Id] | None] = (),
        wait: bool = False,
    ) -> list[str]:
        """Log the requests of a trace and return their ids; none if they are dropped or outside of the logged share.

        A request thread does not wait; `wait` waits for room in the queue.
        """
        ts_ms = self.now_ms()
        with self._lock:
            numbers = [self._ids.new(ts_ms) for _ in users]
        contexts = [None if one is None else {"history": self._ids_of(one)} for one in histories]
        meta = request_meta(pipeline, self._version, numbers, [ts_ms] * len(numbers), users, contexts)
        logged = (self.writer.put if wait else self.writer.offer)(trace, meta)
        return [str(one) for one in numbers] if logged else []

    def _ids_of(self, history: Sequence[Id]) -> list[Id]:
        """Item ids of the type of the log; what cannot be one is left out."""
        kind = str if self.text_items else int
        found = (one if type(one) is kind else as_id(one, self.text_items) for one in history)
        return [one for one in found if one is not None]

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    @property
    def counts(self) -> LogCounts:
        return self.writer.counts

    def close(self) -> None:
        """Write what is left; raises if that fails."""
        self.writer.close()
