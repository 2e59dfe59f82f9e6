"""A recommender as an ASGI app."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from shortlist.pipeline import Recommender
from shortlist.serve.access_log import AccessLog
from shortlist.serve.body_limits import BodyLimits
from shortlist.serve.limits import Limits
from shortlist.serve.openapi import bare_app, document
from shortlist.serve.service import Service

DEFAULT = Limits()


def make_app(recommender: Recommender, limits: Limits = DEFAULT, seed: int = 0) -> FastAPI:
    """The service of one recommender; `seed` is for requests without one."""
    service = Service(recommender, limits, seed)
    app = bare_app(_lifespan)
    app.state.service = service
    app.add_middleware(BodyLimits, limits=limits)
    app.add_middleware(AccessLog, metrics=service.metrics, paths=frozenset(document(app)["paths"]))
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.service.open():
        yield
