"""Raw HTTP on a real port: limits that are checked before a route, and bytes that are not HTTP."""

import json
import socket

import httpx
import pytest

from shortlist.serve import Limits, make_app
from tests.serve.small_service import (
    PROBLEM_KEYS,
    TIMEOUT,
    connected,
    listening_service,
    recommender_of,
    response_on,
)

POST = b"POST /v1/recommend HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
LIMIT = Limits().header_bytes


@pytest.fixture(scope="module")
def url():
    with listening_service(make_app(recommender_of())) as (_, address):
        yield address


def refused(wire, status, code):
    """Assert that the next response is this problem and that the connection ends after it."""
    got, headers, body = response_on(wire)
    problem = json.loads(body)
    assert (got, problem["code"], set(problem)) == (status, code, PROBLEM_KEYS)
    assert headers["content-type"] == "application/problem+json"
    assert headers["connection"] == "close"
    return problem


@pytest.mark.parametrize("length", [1_000_001, 10**18])
def test_announced_large_body_is_refused_before_it_is_sent(url, length):
    with connected(url) as wire:
        wire.sendall(POST + f"Content-Length: {length}\r\n\r\n".encode())  # and not one byte of the body
        problem = refused(wire, 413, "body-too-large")
    assert problem["detail"] == "the body is larger than 1000000 bytes; send fewer ids"


def test_client_that_asks_first_gets_the_refusal_and_no_continue(url):
    with connected(url) as wire:
        wire.sendall(POST + b"Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n")
        refused(wire, 413, "body-too-large")
        assert wire.recv(1) == b""


def test_client_that_asks_first_may_send_a_small_body(url):
    with connected(url) as wire:
        wire.sendall(POST + b"Content-Length: 8\r\nExpect: 100-continue\r\n\r\n")
        assert wire.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(b'{"k": 3}')
        status, _, body = response_on(wire)
    assert (status, len(json.loads(body)["items"])) == (200, 3)


def test_client_that_sends_on_still_reads_the_refusal(url):
    for content in (b" " * 5_000_000, iter([b" " * 500_000] * 10)):
        answer = httpx.post(
            f"{url}/v1/recommend",
            content=content,
            headers={"Content-Type": "application/json"},
            timeout=TIMEOUT,
        )
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


@pytest.mark.parametrize("size", [LIMIT, 2 * LIMIT, 20 * LIMIT])
@pytest.mark.parametrize("where", ["header", "path", "many"])
def test_headers_beyond_the_limit_are_refused(url, size, where):
    more = {
        "header": b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * size + b"\r\n\r\n",
        "path": b"GET /livez?" + b"y" * size + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        "many": b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * (size // 5) + b"\r\n",
    }
    with connected(url) as wire:
        wire.sendall(more[where])
        refused(wire, 431, "headers-too-large")


def test_headers_that_never_end_are_refused(url):
    with connected(url) as wire:
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * (LIMIT + 1))
        refused(wire, 431, "headers-too-large")


def test_headers_below_the_limit_are_accepted(url):
    with connected(url) as wire:
        wire.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * (LIMIT - 100) + b"\r\n\r\n")
        assert response_on(wire)[0] == 200


@pytest.mark.parametrize(
    "invalid",
    [
        b"\x00\xff\r\n\r\n",
        b"hello\r\n\r\n",
        POST + b"Content-Length: -5\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_bytes_that_are_not_http_are_refused_and_the_service_goes_on(url, invalid):
    with connected(url) as wire:
        wire.sendall(invalid)
        refused(wire, 400, "malformed-http")
        assert wire.recv(1) == b""
    assert httpx.get(f"{url}/livez", timeout=TIMEOUT).status_code == 200


def test_kept_open_connection_sends_small_packets_at_once():
    with (
        listening_service(make_app(recommender_of())) as (server, address),
        httpx.Client(base_url=address, timeout=TIMEOUT) as http,
    ):
        assert [http.post("/v1/recommend", json={}).status_code for _ in range(3)] == [200] * 3
        (connection,) = server.server_state.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
