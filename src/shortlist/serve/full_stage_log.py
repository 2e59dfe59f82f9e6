"""The full-stage log of a service: requests through the background writer, events durable before they are accepted."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from shortlist.feedback.events.writer import EventWriter, RejectedEvent
from shortlist.feedback.write.request_log import LogTo, RequestLog
from shortlist.feedback.write.writer import LogCounts
from shortlist.grammar import Pipeline
from shortlist.pipeline import Recommender, Trace
from shortlist.serve.log import LOGGER


class FullStageLog:
    """The open log of one process; `close` writes what is left."""

    def __init__(self, to: LogTo, recommender: Recommender, clock: Callable[[], float] = time.time) -> None:
        self._requests = RequestLog(to, recommender, clock)
        with ExitStack() as opening:
            opening.callback(self._requests.close)
            name, text = self._requests.writer.writer, self._requests.text_items
            self._events = EventWriter(to.root, text, name, to.settings.rotate_seconds)
            opening.pop_all()

    def offer(
        self,
        trace: Trace,
        pipeline: Pipeline,
        user: int | str | None,
        history: Sequence[int | str] | None,
    ) -> str | None:
        """Log one request and return its id; None if it is dropped or outside of the logged share."""
        return next(iter(self._requests.offer(trace, pipeline, [user], [history])), None)

    def append(self, events: Sequence[Mapping[str, Any]]) -> tuple[RejectedEvent, ...]:
        """Write events to the disk, and return those that are none."""
        return self._events.append(events, self._requests.now_ms())

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
