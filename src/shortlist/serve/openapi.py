"""All routes as one app and as one OpenAPI document."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from shortlist.serve.problems import install
from shortlist.serve.routes import ROUTERS
from shortlist.serve.schemas import Problem

TITLE, VERSION = "shortlist", "1.0.0"  # the version of the API, not of the package

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def bare_app(lifespan: Lifespan | None = None) -> FastAPI:
    """The app with its routes and without a recommender."""
    app = FastAPI(
        title=TITLE,
        version=VERSION,
        lifespan=lifespan,
        docs_url=None,  # the page would load scripts from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    install(app)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the schema of problems."""
    content = get_openapi(title=TITLE, version=VERSION, routes=app.routes)
    _, problem = models_json_schema([(Problem, "serialization")], ref_template="#/components/schemas/{model}")
    content["components"]["schemas"].update(problem["$defs"])
    return content


def document_text() -> str:
    """The content of `docs/openapi.json`."""
    return json.dumps(document(bare_app()), indent=2, sort_keys=True) + "\n"
