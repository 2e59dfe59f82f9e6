"""The access log: request ids, metrics, log lines and 500 responses."""

import asyncio
import json
import logging

import pytest

from shortlist.serve.access_log import AccessLog
from shortlist.serve.log import LOGGER
from shortlist.serve.metrics import Metrics

SCOPE = {"type": "http", "method": "GET", "path": "/known", "headers": [(b"x-request-id", b"r1")]}
START = {"type": "http.response.start", "status": 200, "headers": []}
BODY = {"type": "http.response.body", "body": b"hello"}


@pytest.fixture
def fields(caplog):
    """The fields of every request that was logged."""
    caplog.set_level(logging.INFO, LOGGER.name)
    return lambda: [one.fields for one in caplog.records if one.getMessage() == "request"]


def call(app, **other):
    """What `app` inside the middleware sends for one request, and the metrics."""
    sent, metrics = [], Metrics()

    async def send(message):
        sent.append(message)

    asyncio.run(AccessLog(app, metrics, {"/known"})(SCOPE | other, None, send))
    return sent, metrics


def answered(metrics, route, status):
    labels = {"route": route, "status": status}
    return metrics.registry.get_sample_value("shortlist_requests_total", labels)


async def fine(scope, receive, send):
    await send({**START, "headers": []})
    await send(BODY)


async def broken(scope, receive, send):
    raise RuntimeError("secret message")


async def broken_halfway(scope, receive, send):
    await send({**START, "headers": []})
    raise RuntimeError("secret message")


async def silent(scope, receive, send):
    pass


def test_response_carries_the_request_id(fields):
    sent, metrics = call(fine)
    assert sent == [{**START, "headers": [(b"x-request-id", b"r1")]}, BODY]
    assert answered(metrics, "/known", "200") == 1.0
    logged = {name: value for name, value in fields()[0].items() if name != "ms"}
    assert logged == {"request_id": "r1", "method": "GET", "route": "/known", "status": 200}


def test_error_before_the_response_becomes_a_500_without_internals():
    sent, metrics = call(broken)
    assert (sent[0]["status"], dict(sent[0]["headers"])[b"x-request-id"]) == (500, b"r1")
    assert (
        json.loads(sent[1]["body"])["detail"] == "the request failed; the cause is in the log of the service"
    )
    assert answered(metrics, "/known", "500") == 1.0


def test_error_during_the_response_does_not_start_a_second_one(caplog):
    sent, metrics = call(broken_halfway)
    assert [one["type"] for one in sent] == ["http.response.start"]
    assert answered(metrics, "/known", "200") == 1.0
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == ["failed"]


def test_missing_response_is_logged_as_a_disconnected_client():
    sent, metrics = call(silent)
    assert sent == []
    assert answered(metrics, "/known", "499") == 1.0


def test_undeclared_paths_and_methods_share_one_label(fields):
    _, metrics = call(fine, path="/known/u1", method="BREW")
    assert (fields()[0]["route"], fields()[0]["method"]) == ("other", "other")
    assert answered(metrics, "other", "200") == 1.0


def test_other_scopes_pass_unchanged(fields):
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope)

    call(app, type="lifespan")
    assert scopes == [SCOPE | {"type": "lifespan"}]
    assert fields() == []
