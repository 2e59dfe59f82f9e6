"""The full-stage log of a service: requests through the background writer, events durable before they are accepted."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from shortlist.feedback.event_writer import EventWriter, RejectedEvent
from shortlist.feedback.policy import request_meta
from shortlist.feedback.sampling import Sampling
from shortlist.feedback.writer import FullStageLogger, LogCounts, LogSettings
from shortlist.grammar import Pipeline
from shortlist.pipeline import Recommender, Trace
from shortlist.serve.log import LOGGER
from shortlist.serve.request_ids import RequestIds, free_writer


@dataclass(frozen=True)
class LogTo:
    """The folder of a log, and what is written into it."""

    root: str
    settings: LogSettings = field(default_factory=LogSettings)
    sampling: Sampling = field(default_factory=Sampling)


class FullStageLog:
    """The open log of one process; `close` writes what is left."""

    def __init__(self, to: LogTo, recommender: Recommender, clock: Callable[[], float] = time.time) -> None:
        items, users = recommender.catalog.vocabulary, recommender.users
        self._version, self._clock = recommender.about.version, clock
        text = pa.types.is_string(items.ids.type)
        context = pa.struct([("history", pa.list_(pa.string() if text else pa.int64()))])

        def writer(number: int) -> FullStageLogger:
            return FullStageLogger(
                to.root, items, users, to.settings, to.sampling, context, writer=f"serve{number}"
            )

        number, self._requests = free_writer(Path(to.root), writer)
        self._ids = RequestIds(number)
        with ExitStack() as opening:
            opening.callback(self._requests.close)
            self._events = EventWriter(to.root, text, f"serve{number}", to.settings.rotate_seconds)
            opening.pop_all()

    def offer(
        self,
        trace: Trace,
        pipeline: Pipeline,
        user: int | str | None,
        history: Sequence[int | str] | None,
    ) -> str | None:
        """Log one request and return its id; None if it is dropped or outside of the logged share."""
        ts_ms = self._now()
        number = self._ids.new(ts_ms)
        context = [None if history is None else {"history": list(history)}]
        meta = request_meta(pipeline, self._version, [number], [ts_ms], [user], context)
        return str(number) if self._requests.offer(trace, meta) else None

    def append(self, events: Sequence[Mapping[str, Any]]) -> tuple[RejectedEvent, ...]:
        """Write events to the disk, and return those that are none."""
        return self._events.append(events, self._now())

    @property
    def counts(self) -> LogCounts:
        return self._requests.counts

    @property
    def state(self) -> str:
        """ok, or degraded if the last part could not be written."""
        return "degraded" if self.counts.last_error or self._events.error else "ok"

    def close(self) -> None:
        """Write what is left; an error is logged, because the service stops anyway."""
        for one in (self._requests, self._events):
            try:
                one.close()
            # Also an error of the disk must not keep the service from stopping.
            except Exception:  # noqa: BLE001
                LOGGER.exception("log", extra={"fields": {"failed_requests": self.counts.failed}})

    def _now(self) -> int:
        return int(self._clock() * 1000)
