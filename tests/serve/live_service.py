"""A service with two-time-scale users, and events for it."""

from contextlib import contextmanager

from shortlist.serve import LiveTo, make_app
from tests.pipeline.live.live_users import recommender

from .small_service import client_of

EARLY = 1_700_000_000_000
TAKEN = ("i20", "i3", "i33", "i8", "i15", "i28", "i1", "i10", "i36", "i25")


@contextmanager
def live_service(live_to=None, **options):
    """A client of the app; `service` is the running service."""
    app = make_app(recommender(**options), live_to=live_to or LiveTo())
    with client_of(app) as client:
        client.service = app.state.service
        yield client


def event(user, item, at=0, kind="click", **more):
    return {"user_id": user, "item_id": item, "event": kind, "event_ts_ms": EARLY + at, **more}


def post(client, *events):
    return client.post("/v1/events", json={"events": list(events)})


def slate(client, **body):
    answer = client.recommend(**body)
    assert answer.status_code == 200, answer.text
    return [(one["item_id"], one["score"]) for one in answer.json()["items"]]
