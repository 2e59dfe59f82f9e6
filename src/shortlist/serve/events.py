"""Events of clients: into the full-stage log, and into the states of their users."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from shortlist.errors import ArtifactError
from shortlist.feedback.events.columns import EXPECTED
from shortlist.feedback.schema import EVENTS
from shortlist.serve.live import now_ms
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import RequestContext
from shortlist.serve.schemas import (
    Event,
    EventsRequest,
    EventsResponse,
    ForgetRequest,
    ForgetResponse,
    LiveEvents,
    RejectedEvent,
)
from shortlist.serve.service import Service
from shortlist.state import UserEvent

UNMOVED = ("impression", "hide")  # events that do not change the state of a user: he took nothing
NO_LIVE_USERS = "the service has several processes, which share no live users; start it with one worker"
TRIM = (
    "and trim the log of --state (guide: User states, A log that is too long); do not delete it, because it also has "
    "which users were forgotten"
)

Rejected = dict[int, RejectedEvent]


@dataclass(frozen=True)
class Received:
    """Which events of a request go where, by their places."""

    events: Sequence[Event]
    logged: tuple[int, ...]
    live: tuple[int, ...]

    @classmethod
    def of(cls, service: Service, body: EventsRequest) -> "Received":
        """Refuses events that the service has no place for."""
        places = list(enumerate(body.events))
        live = tuple(at for at, event in places if event.user_id is not None)
        if live and not service.is_live:
            raise RefusedError("no-live-users", f"{NO_LIVE_USERS}, or send events without user_id")
        if service.log is None and len(live) < len(places):
            raise RefusedError(
                "no-log",
                "the service writes no log; start it with --log DIR, or send a user_id with every event",
            )
        logged = tuple(at for at, event in places if event.log_id is not None) if service.log else ()
        return cls(body.events, logged, live)


async def accept_events(service: Service, body: EventsRequest, context: RequestContext) -> EventsResponse:
    """Write events to the log, in its thread, and apply those of users to their states, in the scoring thread."""
    received = Received.of(service, body)
    rejected = await service.write(lambda: _log(service, received)) if received.logged else {}
    live = {}
    if received.live:
        good = replace(received, live=tuple(at for at in received.live if at not in rejected))
        found, more = await service.do(lambda: _apply(service, good))
        live, rejected = {"live": found}, rejected | more
    accepted = len(body.events) - len(rejected) - (live["live"].dropped if live else 0)
    service.metrics.events.labels("accepted").inc(accepted)
    service.metrics.events.labels("rejected").inc(len(rejected))
    return EventsResponse(
        request_id=context.request_id,
        accepted=accepted,
        rejected=[rejected[at] for at in sorted(rejected)],
        **live,
    )


def forget(service: Service, body: ForgetRequest, context: RequestContext) -> ForgetResponse:
    """Remove the events, the history and the state of a user, in the scoring thread."""
    recommender = service.recommender
    if recommender.states is None:
        raise RefusedError("no-live-users", NO_LIVE_USERS)
    known = recommender.knows(body.user_id)
    try:
        with _storage(service, 0):
            recommender.states.forget(body.user_id)
    finally:  # a full disk keeps the rows in the files, not in memory
        service.live_events = recommender.states.memory().events
    return ForgetResponse(request_id=context.request_id, known_user=known, durable=service.keeps_events)


def _log(service: Service, received: Received) -> Rejected:
    """Write events to the full-stage log; those that are none."""
    assert service.log is not None
    rows = [_log_row(received.events[at]) for at in received.logged]
    with _storage(service, len(rows)):
        found = service.log.append(rows)
    places = [received.logged[one.index] for one in found]
    return {
        at: RejectedEvent(index=at, code=one.code, detail=one.detail)
        for at, one in zip(places, found, strict=True)
    }


def _apply(service: Service, received: Received) -> tuple[LiveEvents, Rejected]:
    """Apply events to the states of their users; those that are none."""
    states, events = service.recommender.states, received.events
    assert states is not None
    unknown = [at for at in received.live if events[at].event not in EVENTS]
    rejected = {
        at: RejectedEvent(index=at, code="unknown_events", detail=EXPECTED["unknown_events"])
        for at in unknown
    }
    named = [at for at in received.live if at not in rejected]
    moving = [at for at in named if events[at].event not in UNMOVED]
    _check_room(service, len(moving))
    with _storage(service, len(received.live)):
        report = states.apply([_user_event(events[at]) for at in moving], now_ms())
    rejected |= {
        moving[one.index]: RejectedEvent(index=moving[one.index], code=one.code, detail=one.detail)
        for one in report.rejected
    }
    counts = LiveEvents(
        applied=report.applied,
        duplicates=report.duplicates,
        late=report.late,
        dropped=report.dropped,
        ignored=len(named) - len(moving),
    )
    service.live_events += report.applied
    service.metrics.applied({**counts.model_dump(), "rejected": len(rejected)})
    return counts, rejected


def _check_room(service: Service, count: int) -> None:
    """Refuse events beyond the limit of memory."""
    most = service.limits.live_events
    if service.live_events + count > most:
        full = f"the service holds {service.live_events} live events, {most} at most; refresh the bundle with them"
        then = TRIM if service.keeps_events else "and start the service again"
        raise RefusedError("storage", f"{full} {then}", headers={"Retry-After": "10"})


def _user_event(event: Event) -> UserEvent:
    """Without an id, an event of a user with the same item, kind and time is the same event."""
    assert event.user_id is not None
    key = (
        f"{event.item_id}\x00{event.event}\x00{event.event_ts_ms}"
        if event.event_id is None
        else event.event_id
    )
    return UserEvent(event.user_id, event.item_id, event.event_ts_ms, key)


def _log_row(event: Event) -> dict[str, Any]:
    """An event as a row of the table, in which the log_id is the request_id."""
    row = event.model_dump(exclude={"user_id", "event_id"})
    return {"request_id": row.pop("log_id"), **row}


@contextmanager
def _storage(service: Service, count: int) -> Iterator[None]:
    """An error of the disk refuses the request, which can be sent again."""
    try:
        yield
    except (OSError, ArtifactError) as error:
        service.metrics.events.labels("failed").inc(count)
        raise RefusedError(
            "storage",
            "the disk refused to write; send the request again later",
            headers={"Retry-After": "10"},
        ) from error
