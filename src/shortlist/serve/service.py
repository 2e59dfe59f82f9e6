"""State shared by the routes: recommender, worker, metrics and readiness."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, TypeVar

from fastapi import Depends
from fastapi import Request as HTTPRequest

from shortlist.pipeline import Recommender, Request
from shortlist.serve.limits import Limits
from shortlist.serve.metrics import Metrics
from shortlist.serve.problems import RefusedError
from shortlist.serve.schemas import Model
from shortlist.serve.threads import pinned
from shortlist.serve.worker import Worker

WARM_UP_ROUNDS = 3

T = TypeVar("T")


class Service:
    """A served recommender; `seed` is for requests without one."""

    def __init__(self, recommender: Recommender, limits: Limits, seed: int) -> None:
        self.recommender, self.limits, self.seed = recommender, limits, seed
        self.metrics = Metrics()
        self.draining = False
        self._worker: Worker | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Ready inside the block: one thread for arithmetic, warm-up done."""
        self.draining = False
        with pinned(), Worker(self.limits.in_flight, self.metrics.in_flight) as worker:
            await worker.do(lambda: warm_up(self.recommender))
            self._worker = worker
            yield
            self.drain()
        self._worker = None

    def drain(self) -> None:
        """Stop being ready; requests that still arrive are answered."""
        self.draining = True

    async def do(self, work: Callable[[], T]) -> T:
        """The result of `work` from the scoring thread."""
        if self._worker is None:
            raise RefusedError(
                "not-ready", "the service is not ready; try again", headers={"Retry-After": "1"}
            )
        return await self._worker.do(work)

    @property
    def components(self) -> dict[str, str]:
        """The components of readiness: "ok" or the reason."""
        warmed_up = "ok" if self._worker else "pending"
        return {"model": "ok", "warm_up": warmed_up, "accepting": "draining" if self.draining else "ok"}

    @property
    def model(self) -> Model:
        """Name, version and expression of the served model."""
        about = self.recommender.about
        name, version = about.name, about.version or "unsaved"
        return Model(name=name, version=version, pipeline=repr(self.recommender.pipeline))


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
