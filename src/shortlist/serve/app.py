"""A recommender as an ASGI app."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from shortlist.pipeline import Recommender
from shortlist.serve.access_log import AccessLog
from shortlist.serve.head_requests import HeadRequests
from shortlist.serve.limits import Limits
from shortlist.serve.openapi import bare_app, document
from shortlist.serve.request_limits import RequestLimits
from shortlist.serve.service import Service

DEFAULT = Limits()


def make_app(recommender: Recommender, limits: Limits = DEFAULT, seed: int = 0) -> FastAPI:
    """The service of one recommender; `seed` is for requests without one."""
    service = Service(recommender, limits, seed)
    app = bare_app(_lifespan)
    app.state.service = service
    paths = document(app)["paths"]
    with_body = frozenset(path for path, methods in paths.items() if "post" in methods)
    app.add_middleware(RequestLimits, limits=limits, with_body=with_body)
    app.add_middleware(HeadRequests)
    app.add_middleware(
        AccessLog, metrics=service.metrics, paths=frozenset(paths), draining=lambda: service.draining
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.service.open():
        yield
