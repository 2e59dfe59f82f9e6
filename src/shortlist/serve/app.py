"""A recommender as an ASGI app."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from shortlist.feedback.write.request_log import LogTo
from shortlist.pipeline import Recommender, load_recommender
from shortlist.pipeline.plugins import VARIABLE, load_plugins
from shortlist.serve.access_log import AccessLog
from shortlist.serve.examples import request_examples, with_examples
from shortlist.serve.http.head_requests import HeadRequests
from shortlist.serve.http.request_limits import RequestLimits
from shortlist.serve.limits import Limits
from shortlist.serve.live import LiveTo
from shortlist.serve.openapi import bare_app, document
from shortlist.serve.service import Service

DEFAULT = Limits()
IN_MEMORY = LiveTo()


def make_app(
    recommender: Recommender,
    limits: Limits = DEFAULT,
    seed: int = 0,
    log_to: LogTo | None = None,
    live_to: LiveTo | None = IN_MEMORY,
) -> FastAPI:
    """The service of one recommender.

    `seed` is for requests without one, `log_to` for the full-stage log, `live_to` for live users; None: there are none.
    """
    service = Service(recommender, limits, seed, log_to, live_to)
    app = bare_app(_lifespan)
    app.state.service = service
    examples = request_examples(recommender)
    app.openapi = lambda: with_examples(document(app), examples)  # type: ignore[method-assign]
    paths = document(app)["paths"]
    with_body = frozenset(path for path, methods in paths.items() if "post" in methods)
    app.add_middleware(RequestLimits, limits=limits, with_body=with_body)
    app.add_middleware(HeadRequests)
    app.add_middleware(
        AccessLog, metrics=service.metrics, paths=frozenset(paths), draining=lambda: service.draining
    )
    return app


def app_of(bundle: str, limits: Limits = DEFAULT, seed: int = 0, log_to: LogTo | None = None) -> FastAPI:
    """The service of a bundle in one of several processes, which share no live users.

    Unlike an app, the arguments can be sent to another process.
    """
    load_plugins(os.environ.get(VARIABLE, "").split(os.pathsep))
    return make_app(load_recommender(bundle), limits, seed, log_to, None)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.service.open():
        yield
