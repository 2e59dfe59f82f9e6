"""Events of users over HTTP: the next answer follows, each counts once, and wrong ones are named."""

import errno
import json
from datetime import UTC, datetime
from threading import Thread

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.pipeline.recommender import Request
from shortlist.serve import Limits, LiveTo, LogTo, make_app
from shortlist.state import StateSettings, UserEvent
from tests.pipeline.live.live_users import recommender

from .live_service import EARLY, TAKEN, event, live_service, post, slate
from .small_service import TIMEOUT, check_problem, client_of, listening_service
from .test_openapi import FUZZ, anything, ids

FUTURE = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp() * 1e3)


@pytest.fixture
def live():
    with live_service() as client:
        yield client


def test_next_answer_follows_every_event_of_a_never_seen_user():
    """Issue: after 1, 3 and 10 events, on a real port."""
    with (
        listening_service(make_app(recommender())) as (_, url),
        httpx.Client(base_url=url, timeout=TIMEOUT) as http,
    ):
        slates = [http.post("/v1/recommend", json={"user_id": "new"}).json()]
        assert not slates[0]["known_user"]
        for at, item in enumerate(TAKEN):
            answer = http.post("/v1/events", json={"events": [event("new", item, at)]}).json()
            assert (answer["accepted"], answer["live"]["applied"]) == (1, 1)
            slates.append(http.post("/v1/recommend", json={"user_id": "new"}).json())
            assert slates[-1]["known_user"]
            assert slates[-1]["items"] != slates[-2]["items"]
            assert item not in [one["item_id"] for one in slates[-1]["items"]]


def test_answer_is_that_of_the_library(live):
    post(live, *(event("a", item, at) for at, item in enumerate(TAKEN)))
    one = recommender().live()
    one.apply([UserEvent("a", item, EARLY + at, at) for at, item in enumerate(TAKEN)], FUTURE)
    expected = one.recommendations(one.recommend(Request(user="a")))
    found = slate(live, user_id="a")
    assert [item for item, _ in found] == [entry.item_id for entry in expected]
    assert [score for _, score in found] == pytest.approx([entry.score for entry in expected], rel=1e-4)


def test_event_that_is_sent_again_counts_once(live):
    first = post(live, event("a", "i20", event_id="e1"), event("a", "i21", 1)).json()
    before = slate(live, user_id="a")
    again = post(live, event("a", "i20", event_id="e1"), event("a", "i21", 1)).json()
    assert first["live"] == {"applied": 2, "duplicates": 0, "late": 0, "dropped": 0, "ignored": 0}
    assert again["live"] == {"applied": 0, "duplicates": 2, "late": 0, "dropped": 0, "ignored": 0}
    assert (again["accepted"], again["rejected"]) == (2, [])
    assert slate(live, user_id="a") == before


def test_late_events_that_are_dropped_are_not_accepted():
    with live_service(LiveTo(settings=StateSettings(late="drop"))) as client:
        answer = post(client, event("x", "i20", 10**6), event("x", "i21", 1)).json()
    assert answer["accepted"] == 1
    assert (answer["live"]["applied"], answer["live"]["late"], answer["live"]["dropped"]) == (1, 1, 1)


def test_events_in_another_order_give_the_same_answer(live):
    events = [event("x", item, at) for at, item in enumerate(TAKEN)]
    post(live, *events)
    for one in events[::-1]:
        post(live, {**one, "user_id": "y"})
    x, y = slate(live, user_id="x"), slate(live, user_id="y")
    assert [item for item, _ in x] == [item for item, _ in y]
    assert [score for _, score in x] == pytest.approx([score for _, score in y], rel=1e-4)


def test_late_events_are_counted_and_applied_or_dropped():
    old, new = event("a", "i20", 0), event("a", "i21", 3_600_000)
    for late, applied in (("replay", 1), ("drop", 0)):
        with live_service(LiveTo(settings=StateSettings(late=late))) as client:
            post(client, new)
            found = post(client, old).json()["live"]
            assert (found["late"], found["applied"]) == (1, applied)
            seen = "i20" not in [item for item, _ in slate(client, user_id="a", k=8)]
            assert seen or late == "drop"


def test_wrong_events_are_named_with_the_reason_and_the_others_applied(live):
    given = [
        event("a", "nothing"),
        event("a", "i20"),
        {**event("a", "i20"), "event_ts_ms": FUTURE},
        event("a", "i20", -EARLY - 5),
        event("a", "i20", kind="purr"),
        {**event("a", "i20"), "event_ts_ms": 1},
    ]
    answer = post(live, *given).json()
    assert [(one["index"], one["code"]) for one in answer["rejected"]] == [
        (0, "unknown_items"),
        (2, "from_the_future"),
        (3, "bad_times"),
        (4, "unknown_events"),
        (5, "before_the_bundle"),  # its log ends at 1000
    ]
    assert all(one["detail"].startswith("expected") for one in answer["rejected"])
    assert (answer["accepted"], answer["live"]["applied"]) == (1, 1)


def test_impressions_and_hidden_items_change_no_state(live):
    before = slate(live, user_id="a")
    found = post(live, event("a", "i20", kind="impression"), event("a", "i21", kind="hide")).json()["live"]
    assert found == {"applied": 0, "duplicates": 0, "late": 0, "dropped": 0, "ignored": 2}
    assert slate(live, user_id="a") == before


def test_whole_numbers_and_text_are_one_user(live):
    post(live, event(17, "i20"))
    assert slate(live, user_id="17") == slate(live, user_id=17)
    assert slate(live, user_id="17") != slate(live, user_id="18")


def test_given_history_replaces_the_live_one(live):
    post(live, event("a", "i20"))
    with live_service() as other:
        body = {"user_id": "a", "history": ["i1", "i2", "i3"]}
        assert slate(live, **body) == slate(other, **body)


def test_explanation_sees_live_events(live):
    post(live, event("new", "i0"))
    answer = live.explain(user_id="new", item_id="i0").json()
    assert answer["known_user"]
    assert answer["dropped_at"] in ("seen", "")
    assert answer["verdict"] != "returned"


@pytest.mark.parametrize(
    ("one", "pointer", "message"),
    [
        (
            {"item_id": "i1", "event": "click", "event_ts_ms": 1},
            "/events/0",
            "expected a log_id, a user_id, or both",
        ),
        (event("", "i1"), "/events/0/user_id", "expected an integer of 64 bits, or text"),
        (event("a", 1.5), "/events/0/item_id", "expected an integer of 64 bits, or text"),
        (
            event("a", "i1") | {"event_ts_ms": "now"},
            "/events/0/event_ts_ms",
            "expected an integer of 64 bits",
        ),
        (event("a", "i1", event_id=[]), "/events/0/event_id", "expected an integer of 64 bits, or text"),
        (event("a", "i1", surprise=1), "/events/0/surprise", "there is no such field"),
    ],
)
def test_events_of_wrong_types_are_refused_with_the_place(live, one, pointer, message):
    before = slate(live, user_id="a")
    problem = check_problem(post(live, one), 422, "invalid-request")
    assert (problem["errors"][0]["pointer"], True) == (
        pointer,
        problem["errors"][0]["message"].startswith(message),
    )
    assert slate(live, user_id="a") == before


def test_too_many_events_in_a_request_are_refused(live):
    problem = check_problem(post(live, *[event("a", "i1", at) for at in range(1001)]), 422, "invalid-request")
    assert problem["errors"][0]["message"] == "expected at most 1000 events, got 1001"
    assert post(live, *[event("a", "i1", at) for at in range(1000)]).json()["live"]["applied"] == 1000


def test_events_beyond_the_limit_of_the_service_are_refused():
    app = make_app(recommender(), Limits(live_events=3))
    with client_of(app) as client:
        assert post(client, event("a", "i1"), event("b", "i1")).status_code == 200
        problem = check_problem(post(client, event("a", "i2"), event("b", "i2")), 507, "storage")
        assert "2 live events, 3 at most" in problem["detail"]
        assert post(client, event("a", "i2")).json()["live"]["applied"] == 1
        client.post("/v1/forget", json={"user_id": "a"})
        assert post(client, event("b", "i2"), event("b", "i3")).json()["live"]["applied"] == 2


@pytest.mark.parametrize("kept", [True, False])
def test_full_service_says_what_to_do_without_losing_who_was_forgotten(tmp_path, kept):
    to = LiveTo(str(tmp_path)) if kept else LiveTo()
    with client_of(make_app(recommender(), Limits(live_events=0), live_to=to)) as client:
        detail = check_problem(post(client, event("a", "i1")), 507, "storage")["detail"]
    assert "refresh the bundle" in detail
    assert ("trim the log of --state" in detail, "do not delete it" in detail) == (kept, kept)


def test_disk_that_cannot_be_written_refuses_the_events_and_changes_no_answer(tmp_path, monkeypatch):
    with live_service(LiveTo(str(tmp_path))) as client:
        before = slate(client, user_id="a")

        def full(*given):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(client.service.recommender.states.log.file, "append", full)
            problem = check_problem(post(client, event("a", "i20")), 507, "storage")
            assert problem["code"] == "storage"
        assert slate(client, user_id="a") == before
        assert post(client, event("a", "i20")).json()["live"]["applied"] == 1


def test_negative_event_id_is_rejected(live):
    (rejected,) = post(live, event("a", "i1", event_id=-1)).json()["rejected"]
    assert rejected["code"] == "bad_ids"


def test_service_without_live_users_refuses_their_events():
    """Several processes share nothing: each event would be known to one of them."""
    with client_of(make_app(recommender(), live_to=None)) as client:
        problem = check_problem(post(client, event("a", "i20")), 404, "no-live-users")
        assert "one worker" in problem["detail"]
        check_problem(client.post("/v1/forget", json={"user_id": "a"}), 404, "no-live-users")


def test_events_go_to_log_and_state_alike(tmp_path):
    app = make_app(recommender(), log_to=LogTo(str(tmp_path)))
    with client_of(app) as client:
        answer = client.recommend(user_id="a").json()
        now = int(answer["log_id"]) >> 20
        item = answer["items"][0]["item_id"]
        both = event("a", item, event_id="e1") | {"event_ts_ms": now, "log_id": answer["log_id"]}
        logged = {key: value for key, value in both.items() if key not in ("user_id", "event_id")}
        found = post(
            client, both, {**logged, "event": "like"}, {**both, "log_id": "none", "event": "play"}
        ).json()
        assert found["accepted"] == 2
        assert [(one["index"], one["code"]) for one in found["rejected"]] == [(2, "bad_ids")]
        assert found["live"]["applied"] == 1
        assert item not in [one for one, _ in slate(client, user_id="a")]


def test_event_without_a_place_is_refused(live):
    logged = {"log_id": "1", "item_id": "i1", "event": "click", "event_ts_ms": 1}
    problem = check_problem(post(live, event("a", "i20"), logged), 404, "no-log")
    assert "--log" in problem["detail"]


def test_forgotten_user_is_a_new_one(live):
    post(live, event("a", "i20"))
    nobody = slate(live, user_id="nobody")
    assert live.post("/v1/forget", json={"user_id": "a"}).json()["known_user"]
    assert [item for item, _ in slate(live, user_id="a")] == [item for item, _ in nobody]
    assert not live.recommend(user_id="a").json()["known_user"]
    assert not live.post("/v1/forget", json={"user_id": "a"}).json()["known_user"]
    post(live, event("a", "i21", 5))
    assert live.recommend(user_id="a").json()["known_user"]
    check_problem(live.post("/v1/forget", json={}), 422, "invalid-request")


def test_counts_and_sizes_are_in_the_metrics(live):
    post(live, event("a", "i20", event_id="e"), event("b", "i20"), event("b", "nothing"))
    post(live, event("a", "i20", event_id="e"), event("a", "i2", kind="impression"))
    slate(live, user_id="a")
    text = live.get("/metrics").text
    for outcome, count in (("applied", 2), ("duplicates", 1), ("late", 0), ("rejected", 1), ("ignored", 1)):
        assert f'shortlist_live_events_total{{outcome="{outcome}"}} {count}.0' in text
    assert "shortlist_live_users 2.0" in text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("shortlist_live_"))
    assert float(values["shortlist_live_bytes"]) > 0
    assert float(values['shortlist_live_steps{quantile="p95"}']) >= 1
    assert float(values['shortlist_live_staleness_seconds{quantile="p50"}']) > 0
    assert float(values['shortlist_live_step_norm{group="new"}']) > 0
    assert float(values['shortlist_live_share{kind="disordered"}']) == 0
    assert float(values['shortlist_live_share{kind="late"}']) == 0
    assert float(values['shortlist_live_share{kind="mismatched"}']) == 0
    assert '"a"' not in text  # no ids


def test_metrics_wait_for_busy_states_without_stopping_other_requests(live):
    post(live, event("a", "i20"))
    slate(live, user_id="a")
    answers = {}
    threads = [
        Thread(target=lambda path=path: answers.update({path: live.get(path).status_code}))
        for path in ("/metrics", "/livez")
    ]
    with live.service.recommender.states._lock:
        threads[0].start()
        threads[0].join(0.2)  # it waits for the lock
        threads[1].start()
        threads[1].join(5)
        assert answers == {"/livez": 200}
    threads[0].join()
    assert answers["/metrics"] == 200


@pytest.fixture(scope="module")
def fuzzed():
    with live_service() as client:
        yield client


likely = st.lists(
    st.fixed_dictionaries(
        {
            "user_id": ids,
            "item_id": ids,
            "event": st.sampled_from(["play", "hide", "no"]),
            "event_ts_ms": ids,
        },
        optional={"event_id": ids, "more": anything},
    ),
    max_size=4,
)


@FUZZ
@given(body=st.fixed_dictionaries({"events": likely | anything}) | anything)
def test_events_never_cause_a_failure(fuzzed, body):
    answer = fuzzed.raw(json.dumps(body), "/v1/events")
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        found = answer.json()
        assert found["accepted"] + len(found["rejected"]) == len(body["events"])
