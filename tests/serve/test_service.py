"""Readiness, concurrency, log and metrics of a running service."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from threadpoolctl import threadpool_info

from shortlist.serve import Limits, make_app
from shortlist.serve.log import LOGGER, JsonLines

from .small_service import (
    Broken,
    Event,
    Gate,
    check_problem,
    client_of,
    pipeline_of,
    recommender_of,
    served,
    stages,
)

TIMEOUT = 30  # seconds


@pytest.fixture
def lines():
    """The log lines of the service."""
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(JsonLines().format(record))  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    yield written
    LOGGER.setLevel(level)
    LOGGER.removeHandler(handler)


def gated():
    """A recommender that waits before it answers requests without a history; the warm-up does not wait."""
    entered, go = Event(), Event()
    go.set()
    return recommender_of(Gate(entered, go, name="gate") >> stages()["rank"] % 5), entered, go


def test_requests_beyond_the_limit_are_refused_and_the_event_loop_is_not_blocked():
    recommender, entered, go = gated()
    with served(recommender, Limits(in_flight=1)) as client, ThreadPoolExecutor(1) as other:
        go.clear()
        entered.clear()
        first = other.submit(client.recommend)
        assert entered.wait(TIMEOUT)
        refused = client.recommend()
        check_problem(refused, 503, "overloaded")
        assert refused.headers["retry-after"] == "1"
        assert client.get("/livez").json() == {"status": "ok"}
        assert "shortlist_in_flight 1.0" in client.get("/metrics").text
        go.set()
        assert first.result(TIMEOUT).status_code == 200
        assert client.recommend().status_code == 200
        assert "shortlist_in_flight 0.0" in client.get("/metrics").text


def test_service_is_not_ready_before_the_warm_up():
    app = make_app(recommender_of())
    with client_of(app, lifespan=False) as client:
        assert client.get("/livez").status_code == 200
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {
            "ready": False,
            "components": {"model": "ok", "warm_up": "pending", "accepting": "ok"},
        }
        check_problem(client.recommend(), 503, "not-ready")


def test_draining_service_is_not_ready_but_still_answers():
    app = make_app(recommender_of())
    with client_of(app) as client:
        assert client.get("/readyz").json()["ready"]
        app.state.service.drain()
        assert client.get("/readyz").status_code == 503
        assert client.get("/readyz").json()["components"]["accepting"] == "draining"
        assert client.recommend().status_code == 200


def test_model_that_cannot_answer_never_becomes_ready():
    on = Event()
    on.set()
    app = make_app(recommender_of(pipeline_of(rank=Broken(on, name="rank"))))
    with pytest.raises(RuntimeError), client_of(app):
        pass


def test_scoring_uses_one_thread_and_the_number_is_restored():
    before = torch.get_num_threads()
    app = make_app(recommender_of())
    with client_of(app) as client:
        work = app.state.service.do
        assert client.portal.call(work, torch.get_num_threads) == 1
        pools = client.portal.call(work, threadpool_info)
        assert {pool["num_threads"] for pool in pools} == {1}
    assert torch.get_num_threads() == before


def test_failure_exposes_no_internals_and_the_log_has_its_location(lines):
    on = Event()
    with served(recommender_of(pipeline_of(rank=Broken(on, name="rank")))) as client:
        on.set()
        answer = client.recommend(user_id="u1")
        check_problem(answer, 500, "internal-error")
        assert not any(
            word in answer.text for word in ("secret", "RuntimeError", "Traceback", "small_service.py")
        )
        on.clear()
        assert client.recommend().status_code == 200
    failed = json.loads(lines[0])
    assert (failed["event"], failed["error"]) == ("failed", "RuntimeError")
    assert failed["at"][-1].endswith(" score")
    assert "secret" not in lines[0]


def test_log_is_one_json_line_per_request_without_ids(client, lines):
    client.recommend(user_id="canary-user", history=["canary-item"])
    client.raw(b'{"user_id": "canary\\r\\n\\u001b[31mforged"}')
    client.get("/canary%0D%0A%1B[31m", headers={"X-Request-Id": "canary\x1b[31m"})
    client.request("CANARY", "/livez")
    assert len(lines) == 4
    assert all(line.isprintable() and line.isascii() for line in lines)
    assert not any("canary" in line.lower() for line in lines)
    logged = [json.loads(line) for line in lines]
    assert [one["status"] for one in logged] == [200, 422, 404, 405]
    assert [one["route"] for one in logged] == ["/v1/recommend", "/v1/recommend", "other", "/livez"]


def test_safe_request_id_is_kept_and_any_other_replaced(client):
    kept = client.recommend(headers={"X-Request-Id": "abc-1.2_Z"})
    assert kept.json()["request_id"] == kept.headers["x-request-id"] == "abc-1.2_Z"
    for unsafe in ("", "a b", "x" * 65, "a\x1b[31m", "ä", '"}'):
        answer = client.recommend(headers={"X-Request-Id": unsafe.encode()})
        assert answer.json()["request_id"] == answer.headers["x-request-id"] != unsafe
        assert len(answer.json()["request_id"]) == 32


def test_number_of_series_does_not_grow_with_users_items_or_paths(client):
    client.recommend(user_id="u1")
    client.get("/nowhere")
    client.get("/metrics")
    before = len(client.get("/metrics").text.splitlines())
    for number in range(100):
        client.recommend(user_id=f"user-{number}", history=[f"item-{number}"])
        client.get(f"/nowhere/{number}")
    after = client.get("/metrics").text
    assert len(after.splitlines()) == before
    assert "user-1" not in after
    assert "item-1" not in after


def test_requests_stages_and_unknown_ids_are_counted():
    with served() as client:
        client.recommend(user_id="nobody", history=["a", "b", "i1"])
        client.recommend(user_id="u1", trace=True)
        text = client.get("/metrics").text
    assert "shortlist_unknown_users_total 1.0" in text
    assert "shortlist_unknown_items_total 2.0" in text
    assert 'shortlist_requests_total{route="/v1/recommend",status="200"} 2.0' in text
    assert 'shortlist_stage_seconds_count{stage="rank"} 2.0' in text
    assert 'shortlist_stage_kept_total{stage="diverse"} 20.0' in text


def test_version_has_package_api_and_model(client):
    version = client.get("/version").json()
    assert version["api"] == "v1"
    assert version["model"] == {
        "name": "tiny",
        "version": "unsaved",
        "pipeline": "popular % 40 + covisit % 20 >> seen >> rank % 30 >> diverse % 10",
    }
