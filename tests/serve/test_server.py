"""The server: start, draining, raw HTTP and ports."""

import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx
import pytest

from shortlist.artifact.as_json import as_json
from shortlist.artifact.store import Lineage
from shortlist.errors import ConfigError
from shortlist.pipeline import load_recommender, save_recommender
from shortlist.pipeline.recommender import Request
from shortlist.serve import Limits, make_app
from shortlist.serve.server import listening, serve_app, url_of

from .small_service import (
    TIMEOUT,
    Broken,
    Event,
    Gate,
    check_problem,
    connected,
    listening_service,
    pipeline_of,
    recommender_of,
    response_on,
    stages,
)

VERB = "import typer; from shortlist.cli.serve import serve; typer.run(serve)"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    save_recommender(recommender_of(), folder, Lineage())
    return folder


@contextmanager
def running(bundle, *options):
    """The verb in its own process; yields it and its JSON line."""
    command = [sys.executable, "-c", VERB, str(bundle), "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_verb_serves_a_bundle_and_exits_with_0_on_sigterm(bundle):
    library = load_recommender(bundle)
    with running(bundle) as (process, ready), httpx.Client(base_url=ready["url"], timeout=TIMEOUT) as http:
        assert ready["url"].startswith("http://127.0.0.1:")
        assert ready["model"] == {"name": "tiny", "version": library.about.version}
        assert http.get("/readyz").json()["ready"]
        answer = http.post("/v1/recommend", json={"user_id": "u1", "k": 5})
        assert answer.json()["items"] == as_json(
            library.recommendations(library.recommend(Request(user="u1", k=5)))
        )
        assert answer.json()["model"]["version"] == library.about.version
        assert "server" not in answer.headers
        check_problem(http.post("/v1/recommend", json={"k": 0}), 422, "invalid-request")
        large = http.post(
            "/v1/recommend", content=b" " * 2_000_000, headers={"Content-Type": "application/json"}
        )
        check_problem(large, 413, "body-too-large")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith(f"serving {bundle} at http://127.0.0.1:")
    assert all(line.startswith("curl -s http://127.0.0.1:") for line in lines[1:4])
    assert [json.loads(line)["status"] for line in lines[4:]] == [200, 200, 422, 413]


def ready_until_closed(url):
    """The responses of /readyz on new connections, until the port is closed."""
    while True:
        try:
            yield httpx.get(f"{url}/readyz", timeout=TIMEOUT)
        except httpx.TransportError:
            return


@pytest.mark.parametrize("workers", [1, 2])
def test_sigterm_ends_readiness_first_then_the_port_and_finishes_accepted_requests(bundle, workers):
    options = ("--workers", str(workers), "--notice-seconds", "0.5")
    with running(bundle, *options) as (process, ready), connected(ready["url"]) as wire:
        wire.sendall(b"POST /v1/recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n")
        wire.sendall(b"Content-Length: 8\r\n\r\n{")  # accepted, and not complete
        assert httpx.get(f"{ready['url']}/readyz", timeout=TIMEOUT).status_code == 200
        process.send_signal(signal.SIGTERM)
        answers = list(ready_until_closed(ready["url"]))
        wire.sendall(b'"k": 3}')
        status, headers, body = response_on(wire)
        process.communicate(timeout=TIMEOUT)
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert answers[-len(refused) :] == refused  # once not ready, never ready again
    assert {answer.headers["connection"] for answer in refused} == {"close"}
    assert (status, headers["connection"], len(json.loads(body)["items"])) == (200, "close", 3)
    assert process.returncode == 0


def test_kept_open_connection_is_told_to_close_while_draining():
    app = make_app(recommender_of(), Limits(notice_seconds=TIMEOUT))
    with listening_service(app) as (server, url), httpx.Client(base_url=url, timeout=TIMEOUT) as http:
        assert "connection" not in http.post("/v1/recommend", json={}).headers
        server.handle_exit(signal.SIGTERM, None)
        answer = http.post("/v1/recommend", json={})
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert http.get("/livez").headers["connection"] == "close"  # the port is still open


def test_accepted_request_is_answered_while_draining():
    entered, go = Event(), Event()
    go.set()
    app = make_app(recommender_of(Gate(entered, go, name="gate") >> stages()["rank"] % 5))
    with listening_service(app) as (server, url):
        go.clear()
        entered.clear()
        answers: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}/v1/recommend", json={}, timeout=TIMEOUT))
        )
        asking.start()
        assert entered.wait(TIMEOUT)
        server.handle_exit(signal.SIGTERM, None)
        assert app.state.service.components["accepting"] == "draining"
        go.set()
        asking.join(TIMEOUT)
    assert [answer.status_code for answer in answers] == [200]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", timeout=TIMEOUT)


def test_taken_port_is_a_config_error():
    with listening("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"cannot listen on 127.0.0.1 port {port}: .*; choose another --port"
        ):
            serve_app(make_app(recommender_of()), "127.0.0.1", port, print)


def test_ipv6_address_is_in_brackets():
    assert url_of(("::1", 8000, 0, 0)) == "http://[::1]:8000"
    assert url_of(("127.0.0.1", 8000)) == "http://127.0.0.1:8000"


def test_model_that_cannot_answer_prevents_the_start(monkeypatch):
    monkeypatch.setattr("shortlist.serve.server.log_config", lambda: None)  # logging is global to the process
    on = Event()
    on.set()
    app = make_app(recommender_of(pipeline_of(rank=Broken(on, name="rank"))))
    with pytest.raises(ConfigError, match="the service did not start; the cause is in the log"):
        serve_app(app, "127.0.0.1", 0, print)
