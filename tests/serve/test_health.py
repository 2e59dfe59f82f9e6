"""Liveness, readiness, metrics and versions."""

import asyncio
from types import SimpleNamespace

import pytest
from fastapi import Response

from shortlist import __version__
from shortlist.serve.openapi import bare_app
from shortlist.serve.routes.health import get_livez, get_readyz

from .small_service import client_of, served

FINE = {"model": "ok", "warm_up": "ok", "accepting": "ok"}


def test_livez_needs_no_recommender():
    assert asyncio.run(get_livez()) == {"status": "ok"}
    with client_of(bare_app(), lifespan=False) as client:
        assert client.get("/livez").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("other", "status"),
    [({}, 200), ({"model": "lost"}, 503), ({"warm_up": "pending"}, 503), ({"accepting": "draining"}, 503)],
)
def test_one_component_that_is_not_ok_makes_the_service_not_ready(other, status):
    response = Response()
    answer = asyncio.run(get_readyz(SimpleNamespace(components=FINE | other), response))
    assert (response.status_code, answer.ready, answer.components) == (status, status == 200, FINE | other)


def test_running_service_is_ready_in_every_component(client):
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "components": FINE})


def test_metrics_are_prometheus_text_and_count_their_own_requests():
    with served() as client:
        first, second = client.get("/metrics"), client.get("/metrics")
    assert first.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    line = 'shortlist_requests_total{route="/metrics",status="200"} 1.0'
    assert (line in first.text, line in second.text) == (False, True)


def test_version_is_that_of_the_package(client):
    assert client.get("/version").json()["shortlist"] == __version__
