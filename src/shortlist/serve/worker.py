"""One thread with a bounded queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import Any, Self, TypeVar

from prometheus_client import Gauge

from shortlist.serve.problems import RefusedError
from shortlist.serve.threads import pin

T = TypeVar("T")


class Worker:
    """Runs one job at a time outside the event loop; refuses when too many wait."""

    def __init__(self, in_flight: int, gauge: Gauge, name: str = "score") -> None:
        self._slots = BoundedSemaphore(in_flight)
        self._gauge = gauge
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name, initializer=pin)

    async def do(self, work: Callable[[], T]) -> T:
        """The result of `work`, or an immediate refusal."""
        if not self._slots.acquire(blocking=False):
            raise RefusedError(
                "overloaded", "too many requests are waiting; try again", headers={"Retry-After": "1"}
            )
        try:
            future = self._pool.submit(work)
        except RuntimeError as error:  # the pool is closed: the server is going down
            self._slots.release()
            raise RefusedError("not-ready", "the service is shutting down; try again") from error
        self._gauge.inc()
        # The slot is free when the work has ended, not when the client has disconnected.
        future.add_done_callback(self._release)
        return await asyncio.wrap_future(future)

    def _release(self, _: Future[Any]) -> None:
        self._gauge.dec()
        self._slots.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
