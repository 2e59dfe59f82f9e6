"""POST /v1/recommend: a slate for a user or a history."""

from fastapi import APIRouter, Request, Response

from shortlist.serve.answer import degraded_header, recommend
from shortlist.serve.problems import BODY_CODES, declare
from shortlist.serve.request_context import context_of
from shortlist.serve.schemas import RecommendRequest, RecommendResponse
from shortlist.serve.service import TheService

router = APIRouter()


@router.post("/v1/recommend", responses=declare(*BODY_CODES), response_model_exclude_unset=True)
async def post_recommend(
    body: RecommendRequest, service: TheService, request: Request, response: Response
) -> RecommendResponse:
    """A slate, best first; skipped stages are listed in `degraded` and in the header `Shortlist-Degraded`."""
    context = context_of(request)
    result = await service.do(lambda: recommend(service, body, context))
    if result.degraded:
        response.headers["Shortlist-Degraded"] = degraded_header(result.degraded)
    return result
