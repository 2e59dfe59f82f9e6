"""POST /v1/events: what became of the items of a logged request."""

from fastapi import APIRouter, Request

from shortlist.serve.answer import accept_events
from shortlist.serve.problems import BODY_CODES, declare
from shortlist.serve.request_context import context_of
from shortlist.serve.schemas import EventsRequest, EventsResponse
from shortlist.serve.service import TheService

router = APIRouter()


@router.post("/v1/events", responses=declare(*BODY_CODES, "no-log", "storage"))
async def post_events(body: EventsRequest, service: TheService, request: Request) -> EventsResponse:
    """Append events to the log of the service; accepted ones are on the disk when the answer is sent.

    An event with the log_id, item, kind and time of an earlier one counts once, so a request can be sent again.
    """
    context = context_of(request)
    return await service.write(lambda: accept_events(service, body, context))
