"""State shared by the routes: recommender, worker, metrics and readiness."""

from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, TypeVar

from fastapi import Depends
from fastapi import Request as HTTPRequest

from shortlist.feedback.write.request_log import LogTo
from shortlist.pipeline import Recommender, Request
from shortlist.serve.full_stage_log import FullStageLog
from shortlist.serve.limits import Limits
from shortlist.serve.live import LiveTo, live_recommender, now_ms
from shortlist.serve.metrics import Metrics
from shortlist.serve.problems import RefusedError
from shortlist.serve.schemas import Model
from shortlist.serve.threads import pinned
from shortlist.serve.worker import Worker

WARM_UP_ROUNDS = 3

T = TypeVar("T")


class Service:
    """A served recommender; `seed` is for requests without one."""

    def __init__(
        self,
        recommender: Recommender,
        limits: Limits,
        seed: int,
        log_to: LogTo | None = None,
        live_to: LiveTo | None = None,
    ) -> None:
        self.recommender, self.limits, self.seed = recommender, limits, seed
        self.log_to, self.live_to = log_to, live_to
        self.log: FullStageLog | None = None  # while the service runs
        self.live_events = 0  # kept now
        self.metrics = Metrics()
        self.draining = False
        self._worker: Worker | None = None
        self._log_worker: Worker | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Ready inside the block: one thread for arithmetic, warm-up done."""
        self.draining = False
        limit, gauge = self.limits.in_flight, self.metrics.in_flight
        with (
            pinned(),
            self._living(),
            self._logging(),
            Worker(limit, gauge) as worker,
            Worker(limit, gauge, "log") as log_worker,
        ):
            await worker.do(lambda: warm_up(self.recommender))
            self._worker, self._log_worker = worker, log_worker
            yield
            self.drain()
        self._worker = self._log_worker = None

    @contextmanager
    def _living(self) -> Iterator[None]:
        """Users are live inside the block."""
        before = self.recommender
        with live_recommender(before, self.live_to) as self.recommender:
            states = self.recommender.states
            self.live_events = 0 if states is None else states.memory().events
            yield
        self.recommender = before

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """The log is open inside the block; at its end everything is on the disk."""
        if self.log_to is None:
            yield
            return
        self.log = FullStageLog(self.log_to, self.recommender)
        try:
            yield
        finally:
            self.log.close()
            self.metrics.logged(self.log.counts)
            self.log = None

    def drain(self) -> None:
        """Stop being ready; requests that still arrive are answered."""
        self.draining = True

    async def do(self, work: Callable[[], T]) -> T:
        """The result of `work` from the scoring thread."""
        return await _ready(self._worker).do(work)

    async def write(self, work: Callable[[], T]) -> T:
        """The result of `work` from the thread that writes events."""
        return await _ready(self._log_worker).do(work)

    @property
    def is_live(self) -> bool:
        """Whether events of users change the answers to them."""
        return self.recommender.states is not None

    @property
    def keeps_events(self) -> bool:
        """Whether live events, and which users were forgotten, are there after a restart."""
        return self.live_to is not None and self.live_to.folder is not None

    async def measure(self) -> None:
        """Bring the metrics of log and states up to date; states are read in another thread, since they may be busy."""
        if self.log is not None:
            self.metrics.logged(self.log.counts)
        states = self.recommender.states
        if states is not None:
            await to_thread(self.metrics.live, states, now_ms())

    @property
    def components(self) -> dict[str, str]:
        """The components of readiness: "ok", "degraded" or the reason."""
        warmed_up = "ok" if self._worker else "pending"
        log = {} if self.log is None else {"log": self.log.state}
        return {
            "model": "ok",
            "warm_up": warmed_up,
            "accepting": "draining" if self.draining else "ok",
            **log,
        }

    @property
    def model(self) -> Model:
        """Name, version and expression of the served model."""
        about = self.recommender.about
        name, version = about.name, about.version or "unsaved"
        return Model(name=name, version=version, pipeline=repr(self.recommender.pipeline))


def _ready(worker: Worker | None) -> Worker:
    if worker is None:
        raise RefusedError("not-ready", "the service is not ready; try again", headers={"Retry-After": "1"})
    return worker


def warm_up(recommender: Recommender) -> None:
    """Answer requests of an unknown user, a known user and a short history, so that lazy values are computed."""
    items, users = recommender.catalog.vocabulary, recommender.users
    history = [items.id(row) for row in range(min(5, len(items)))]
    requests = [
        Request(),
        Request(history=history),
        *(Request(user=users.id(row)) for row in range(min(1, len(users)))),
    ]
    for request in requests * WARM_UP_ROUNDS:
        recommender.recommendations(recommender.recommend(request))


def _of(request: HTTPRequest) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_of)]
