import asyncio
from types import SimpleNamespace

import pytest
from fastapi import Response

from shortlist import __version__
from shortlist.serve.openapi import surface
from shortlist.serve.routes.health import get_livez, get_readyz

from .tiny import client_of, served

FINE = {"model": "ok", "warm_up": "ok", "accepting": "ok"}


def test_to_live_nothing_is_needed():
    assert asyncio.run(get_livez()) == {"status": "ok"}
    with client_of(surface(), lifespan=False) as client:
        assert client.get("/livez").json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("other", "status"),
    [({}, 200), ({"model": "lost"}, 503), ({"warm_up": "pending"}, 503), ({"accepting": "draining"}, 503)],
)
def test_one_component_that_is_not_ok_is_enough_to_be_not_ready(other, status):
    response = Response()
    told = asyncio.run(get_readyz(SimpleNamespace(components=FINE | other), response))
    assert (response.status_code, told.ready, told.components) == (status, status == 200, FINE | other)


def test_a_service_at_work_is_ready_in_every_component(client):
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "components": FINE})


def test_metrics_are_prometheus_text_and_count_the_looks_at_them():
    with served() as client:
        first, second = client.get("/metrics"), client.get("/metrics")
    assert first.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    looks = 'shortlist_requests_total{route="/metrics",status="200"} 1.0'
    assert (looks in first.text, looks in second.text) == (False, True)


def test_the_version_is_that_of_the_package(client):
    assert client.get("/version").json()["shortlist"] == __version__
