"""POST /v1/recommend: a slate for a user or a history."""

from fastapi import APIRouter, Request, Response

from shortlist.serve.answer import degraded_header, recommend
from shortlist.serve.request_context import visit_of
from shortlist.serve.routes.asking import BODY_PROBLEMS
from shortlist.serve.schemas import Answer, Ask
from shortlist.serve.service import TheService

router = APIRouter()


@router.post("/v1/recommend", responses=BODY_PROBLEMS, response_model_exclude_unset=True)
async def post_recommend(ask: Ask, service: TheService, request: Request, response: Response) -> Answer:
    """A slate, best first; what it had to do without stands in `degraded` and `Shortlist-Degraded`."""
    visit = visit_of(request)
    answer = await service.do(lambda: recommend(service, ask, visit))
    if answer.degraded:
        response.headers["Shortlist-Degraded"] = degraded_header(answer.degraded)
    return answer
