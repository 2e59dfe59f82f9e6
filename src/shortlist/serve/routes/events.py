"""POST /v1/events and POST /v1/forget: what users did, and users who want to be unknown."""

from fastapi import APIRouter, Request

from shortlist.serve.events import accept_events, forget
from shortlist.serve.problems import BODY_CODES, declare
from shortlist.serve.request_context import context_of
from shortlist.serve.schemas import EventsRequest, EventsResponse, ForgetRequest, ForgetResponse
from shortlist.serve.service import TheService

router = APIRouter()


@router.post(
    "/v1/events",
    responses=declare(*BODY_CODES, "no-log", "no-live-users", "storage"),
    response_model_exclude_unset=True,
)
async def post_events(body: EventsRequest, service: TheService, request: Request) -> EventsResponse:
    """Events of users change the answers to them at once; those of logged requests are appended to the log.

    An event with the event_id of an earlier one of its user counts once, and so does one with the log_id, item, kind
    and time of an earlier one, so a request can be sent again.
    """
    return await accept_events(service, body, context_of(request))


@router.post("/v1/forget", responses=declare(*BODY_CODES, "no-live-users", "storage"))
async def post_forget(body: ForgetRequest, service: TheService, request: Request) -> ForgetResponse:
    """Remove the events, the history and the state of a user, who is a new one from now on."""
    context = context_of(request)
    return await service.do(lambda: forget(service, body, context))
