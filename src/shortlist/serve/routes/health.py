"""Liveness, readiness, metrics and versions."""

from fastapi import APIRouter, Response

from shortlist import __version__
from shortlist.serve.problems import declare
from shortlist.serve.schemas import Readiness, Version
from shortlist.serve.service import TheService

router = APIRouter()

TEXT = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/livez", responses=declare())
async def get_livez() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={**declare(), 503: {"model": Readiness, "description": "Not ready"}})
async def get_readyz(service: TheService, response: Response) -> Readiness:
    """Whether requests are accepted: 503 before the warm-up is done and while draining.

    A component that is degraded does not keep the service from answering.
    """
    components = service.components
    ready = all(state in ("ok", "degraded") for state in components.values())
    response.status_code = 200 if ready else 503
    return Readiness(ready=ready, components=components)


@router.get(
    "/metrics",
    responses={**declare(), 200: {"content": {"text/plain": {}}, "description": "Prometheus text"}},
    response_class=Response,
)
async def get_metrics(service: TheService) -> Response:
    """Metrics since the start."""
    await service.measure()
    return Response(service.metrics.text(), media_type=TEXT)


@router.get("/version", responses=declare())
async def get_version(service: TheService) -> Version:
    """Versions of the package, the API and the model."""
    return Version(shortlist=__version__, api="v1", model=service.model)
