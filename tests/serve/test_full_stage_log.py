"""The service writes a full-stage log: whole requests, events that join them, counts and states."""

import errno
import json
import threading
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.feedback.events import spool
from shortlist.feedback.inspection import inspect_log
from shortlist.feedback.join import join_feedback, labelled
from shortlist.feedback.outcomes import LabelRules
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.feedback.write import buffer
from shortlist.feedback.write.sampling import EVERYTHING
from shortlist.feedback.write.writer import LogSettings
from shortlist.pipeline import Request
from shortlist.serve import LogTo, make_app
from shortlist.serve.full_stage_log import FullStageLog

from .small_service import check_problem, client_of, recommender_of
from .test_openapi import FUZZ, anything, ids

DAY = 86_400_000


@contextmanager
def logging_service(root, settings=None, **options):
    to = LogTo(str(root), settings or LogSettings(), options.pop("sampling", EVERYTHING))
    app = make_app(recommender_of(**options), log_to=to)
    with client_of(app) as client:
        client.service = app.state.service
        yield client


def read(root):
    return concat(list(LogReader(root, check=True).requests()))


def event(log_id, item, kind, ts, **more):
    return {"log_id": log_id, "item_id": item, "event": kind, "event_ts_ms": ts, **more}


def post(client, *events):
    return client.post("/v1/events", json={"events": list(events)})


def test_log_has_the_returned_slates_under_the_ids_of_the_responses(tmp_path):
    """Service spec I4: the logged slate is the returned one."""
    with logging_service(tmp_path) as client:
        answers = [client.recommend(user_id=f"u{row % 8}", k=4 + row % 3).json() for row in range(20)]
    found = read(tmp_path)
    assert found.request_id.tolist() == [int(one["log_id"]) for one in answers]
    assert found.user_id.tolist() == [f"u{row % 8}" for row in range(20)]
    for row, answer in enumerate(answers):
        own = found.take([row])
        places = own.position[own.position > 0].argsort()
        assert own.item_id[own.position > 0][places].tolist() == [one["item_id"] for one in answer["items"]]
        assert own.capacities[0].tolist() == [-1, -1, 30, len(answer["items"])]
    assert found.funnels[0].nominators == ("popular", "covisit")
    assert found.funnels[0].stages[1:] == ("seen", "rank", "diverse")


def test_posted_events_become_labels_of_the_slate(tmp_path, monkeypatch):
    with logging_service(tmp_path) as client:
        answer = client.recommend(user_id="u1", k=3).json()
        now = int(answer["log_id"]) >> 20
        items = [one["item_id"] for one in answer["items"]]
        shown = [event(answer["log_id"], one, "impression", now + 10) for one in items[:2]]
        played = event(answer["log_id"], items[0], "play", now + 50, value=9000)
        assert post(client, *shown, played).json()["accepted"] == 3
        assert post(client, played).json()["accepted"] == 1  # sent again
    rules = LabelRules()
    report = join_feedback(tmp_path, rules, watermark=now + DAY)
    assert (report.positives, report.negatives, report.open) == (1, 1, 1)
    assert report.counts["duplicate_events"] == 1
    (record,) = labelled(LogReader(tmp_path), rules.version)
    served = record.position > 0
    assert dict(zip(record.item_id[served], record.y[served].tolist(), strict=True)) == {
        items[0]: 1,
        items[1]: 0,
        items[2]: -1,
    }


def test_response_without_a_log_has_no_log_id_and_events_are_refused(client):
    assert "log_id" not in client.recommend(user_id="u1").json()
    problem = check_problem(post(client, event(1, "i1", "play", 1)), 404, "no-log")
    assert "--log" in problem["detail"]


def test_rejected_events_are_named_and_the_others_are_kept(tmp_path):
    with logging_service(tmp_path) as client:
        log_id = client.recommend().json()["log_id"]
        ts = int(log_id) >> 20
        given = [
            event(log_id, "i1", "play", ts),
            event("my-request", "i1", "play", ts),
            event(log_id, "i1", "purr", ts),
            event(log_id, "i1", "play", ts + DAY),
        ]
        answer = post(client, *given).json()
        text = client.get("/metrics").text
    assert answer["accepted"] == 1
    assert [(one["index"], one["code"]) for one in answer["rejected"]] == [
        (1, "bad_ids"),
        (2, "unknown_events"),
        (3, "from_the_future"),
    ]
    assert 'shortlist_events_total{outcome="accepted"} 1.0' in text
    assert 'shortlist_events_total{outcome="rejected"} 3.0' in text


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({}, "/events", "the field is required"),
        ({"events": 5}, "/events", "expected a list of events, got 5"),
        ({"events": [{}]}, "/events/0/item_id", "the field is required"),
        (
            {"events": [{"item_id": "a", "event": "play", "event_ts_ms": 1}]},
            "/events/0",
            "expected a log_id, a user_id, or both",
        ),
        (
            {"events": [event(1, "a", "play", 1.5)]},
            "/events/0/event_ts_ms",
            "expected an integer of 64 bits, got 1.5",
        ),
        ({"events": [event(1, "a", 7, 1)]}, "/events/0/event", "expected one of impression, play"),
        ({"events": [event(1, "a", "play", 1, value="x")]}, "/events/0/value", "expected a number"),
        ({"events": [event(1, "a", "play", 1)] * 1001}, "/events", "expected at most 1000 events, got 1001"),
    ],
)
def test_body_that_is_no_list_of_events_is_refused_with_the_place(tmp_path, body, pointer, message):
    with logging_service(tmp_path) as client:
        problem = check_problem(client.post("/v1/events", json=body), 422, "invalid-request")
    assert (pointer, True) in [
        (one["pointer"], one["message"].startswith(message)) for one in problem["errors"]
    ]


def test_full_queue_drops_whole_requests_and_the_answer_has_no_log_id(tmp_path, monkeypatch):
    gate = threading.Event()
    real = buffer.write_buffer
    monkeypatch.setattr(
        "shortlist.feedback.write.writer.write_buffer", lambda *given: (gate.wait(), real(*given))[1]
    )
    settings = LogSettings(queue=1, rotate_bytes=1)
    with logging_service(tmp_path, settings) as client:
        answers = [client.recommend(user_id="u1").json() for _ in range(6)]
        gate.set()
        logged = [one["log_id"] for one in answers if "log_id" in one]
        assert 0 < len(logged) < 6
        assert all(len(one["items"]) == 10 for one in answers)
    summary = inspect_log(tmp_path)
    assert (summary.requests, summary.dropped_requests) == (len(logged), 6 - len(logged))
    assert not summary.problems.counts


def test_counts_of_the_log_are_in_the_metrics(tmp_path):
    with logging_service(tmp_path, LogSettings(rotate_bytes=1)) as client:
        for _ in range(3):
            client.recommend()
        client.service.log._requests.writer.flush()
        assert 'shortlist_log_requests_total{outcome="written"} 3.0' in client.get("/metrics").text
        assert client.get("/readyz").json()["components"]["log"] == "ok"


def test_log_that_cannot_be_written_degrades_the_component_but_not_the_answers(tmp_path, monkeypatch):
    """Service spec F6."""

    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    with logging_service(tmp_path, LogSettings(rotate_bytes=1)) as client:
        with monkeypatch.context() as patched:
            patched.setattr("shortlist.feedback.write.writer.write_buffer", full)
            patched.setattr(spool, "_write", full)
            assert client.recommend().status_code == 200
            client.service.log._requests.writer._wake.set()
            for _ in range(300):
                if client.get("/readyz").json()["components"]["log"] == "degraded":
                    break
                threading.Event().wait(0.01)
            assert client.get("/readyz").json() == {
                "ready": True,
                "components": {"model": "ok", "warm_up": "ok", "accepting": "ok", "log": "degraded"},
            }
            problem = post(client, event(1, "i1", "play", 1))
            check_problem(problem, 507, "storage")
            assert problem.headers["retry-after"] == "10"
        assert client.recommend().status_code == 200
        client.service.log._requests.writer.flush()
        assert client.get("/readyz").json()["components"]["log"] == "ok"
        assert post(client, event(1, "i1", "play", 1)).status_code == 200
    summary = inspect_log(tmp_path)
    assert (summary.requests, summary.failed_requests, summary.events) == (1, 1, 1)


def test_share_of_logged_requests_is_that_of_the_settings(tmp_path):
    with logging_service(tmp_path, LogSettings(head_rate=0.0)) as client:
        assert "log_id" not in client.recommend(user_id="u1").json()
    assert inspect_log(tmp_path).skipped_requests == 1


def test_history_of_the_request_is_in_its_context(tmp_path):
    with logging_service(tmp_path) as client:
        client.recommend(history=["i4", "nothing", "i5"])
        client.recommend(user_id="u1")
    (path,) = tmp_path.glob("table=requests/*/*/*.parquet")
    contexts = pq.read_table(path)["context"].to_pylist()
    assert contexts == [{"history": ["i4", "i5"]}, None]


def test_two_processes_write_into_one_log_with_different_ids(tmp_path):
    to, recommender = LogTo(str(tmp_path)), recommender_of()
    clock = iter([1_700_000_000.0] * 100).__next__
    logs = [FullStageLog(to, recommender, clock) for _ in range(2)]
    try:
        slates = [recommender.recommend(Request(user="u1")) for _ in range(2)]
        found = [log.offer(slate.trace, recommender.pipeline, "u1", None) for slate in slates for log in logs]
        assert len(set(found)) == 4
    finally:
        for log in logs:
            log.close()
    assert sorted(read(tmp_path).request_id.tolist()) == sorted(map(int, found))


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    with logging_service(tmp_path_factory.mktemp("log")) as client:
        yield client


likely_events = st.lists(
    st.fixed_dictionaries(
        {"log_id": ids, "item_id": ids, "event": st.sampled_from(["play", "like", "no"]), "event_ts_ms": ids},
        optional={"value": anything, "more": anything},
    ),
    max_size=4,
)


@FUZZ
@given(body=st.fixed_dictionaries({"events": likely_events | anything}) | anything)
def test_events_never_cause_a_failure(fuzzed, body):
    answer = fuzzed.raw(json.dumps(body), "/v1/events")
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        found = answer.json()
        assert found["accepted"] + len(found["rejected"]) == len(body["events"])
