"""POST /v1/explain: where an item went in a request."""

from fastapi import APIRouter, Request

from shortlist.serve.answer import explain_item
from shortlist.serve.problems import declare
from shortlist.serve.request_context import visit_of
from shortlist.serve.routes.asking import BODY_CODES
from shortlist.serve.schemas import ExplainAsk, Explained
from shortlist.serve.service import TheService

router = APIRouter()


@router.post("/v1/explain", responses=declare(*BODY_CODES, "unknown-item"), response_model_exclude_unset=True)
async def post_explain(ask: ExplainAsk, service: TheService, request: Request) -> Explained:
    """Who named the item, how every stage judged it, and which one dropped it."""
    visit = visit_of(request)
    return await service.do(lambda: explain_item(service, ask, visit))
