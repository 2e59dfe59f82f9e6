"""One artifact as an ASGI app."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from shortlist.pipeline import Recommender
from shortlist.serve.access_log import Watch
from shortlist.serve.body_limits import Door
from shortlist.serve.limits import Limits
from shortlist.serve.openapi import document, surface
from shortlist.serve.service import Service

DEFAULT = Limits()


def make_app(recommender: Recommender, limits: Limits = DEFAULT, seed: int = 0) -> FastAPI:
    """The service over one recommender; `seed` is for requests that bring none."""
    service = Service(recommender, limits, seed)
    app = surface(_lifespan)
    app.state.service = service
    app.add_middleware(Door, limits=limits)
    app.add_middleware(Watch, metrics=service.metrics, paths=frozenset(document(app)["paths"]))
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with app.state.service.open():
        yield
