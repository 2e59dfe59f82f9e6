"""POST /v1/explain: the stage that dropped an item."""

from fastapi import APIRouter, Request

from shortlist.serve.answer import explain_item
from shortlist.serve.problems import BODY_CODES, declare
from shortlist.serve.request_context import context_of
from shortlist.serve.schemas import ExplainRequest, ExplainResponse
from shortlist.serve.service import TheService

router = APIRouter()


@router.post("/v1/explain", responses=declare(*BODY_CODES, "unknown-item"), response_model_exclude_unset=True)
async def post_explain(body: ExplainRequest, service: TheService, request: Request) -> ExplainResponse:
    """The nominators of the item, its score and rank at every stage, and the stage that dropped it."""
    context = context_of(request)
    return await service.do(lambda: explain_item(service, body, context))
