"""Bodies that break a limit are refused with a problem response."""

import asyncio
import gzip

import pytest

from shortlist.serve import Limits, make_app
from shortlist.serve.problems import CODES
from tests.serve.small_service import check_problem, client_of, recommender_of, served

MALFORMED = {
    "nothing": b"",
    "half an object": b'{"k": 3',
    "two objects": b"{}{}",
    "single quotes": b"{'k': 3}",
    "NaN": b'{"k": NaN}',
    "Infinity": b'{"k": -Infinity}',
    "a key twice": b'{"k": 1, "k": 2}',
    "a key twice inside": b'{"history": [{"a": 1, "a": 1}]}',
    "bytes that are no UTF-8": b'{"user_id": "\xff\xfe"}',
    "UTF-16": '{"k": 3}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a raw NUL": b'{"user_id": "a\x00b"}',
    "a raw newline": b'{"user_id": "a\nb"}',
    "ten thousand brackets": b"[" * 10_000 + b"]" * 10_000,
    "ten thousand objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a number of 5000 digits": b'{"seed": ' + b"9" * 5000 + b"}",
}
WRONG = {
    "a list": (b"[]", ""),
    "null": (b"null", ""),
    "a number": (b"3", ""),
    "an unknown field": (b'{"users": 3}', "/users"),
    "a slash in a field": (b'{"a/b~c": 3}', "/a~1b~0c"),
    "text for k": (b'{"k": "3"}', "/k"),
    "a fraction for k": (b'{"k": 10.5}', "/k"),
    "true for k": (b'{"k": true}', "/k"),
    "k of nothing": (b'{"k": 0}', "/k"),
    "k too large": (b'{"k": 1001}', "/k"),
    "a seed beyond 64 bits": (b'{"seed": 9223372036854775808}', "/seed"),
    "a seed of 400 digits": (b'{"seed": ' + b"9" * 400 + b"}", "/seed"),
    "a seed of infinity": (b'{"seed": 1e999}', "/seed"),
    "true for a user": (b'{"user_id": true}', "/user_id"),
    "a float for a user": (b'{"user_id": 1.5}', "/user_id"),
    "an empty user": (b'{"user_id": ""}', "/user_id"),
    "a user of 129 bytes": (b'{"user_id": "' + b"x" * 129 + b'"}', "/user_id"),
    "a user of 65 letters in 130 bytes": ('{"user_id": "' + "ä" * 65 + '"}', "/user_id"),
    "an escaped NUL": (b'{"user_id": "a\\u0000b"}', "/user_id"),
    "an escaped newline": (b'{"user_id": "a\\nb"}', "/user_id"),
    "an escape for terminals": (b'{"user_id": "\\u001b[31m"}', "/user_id"),
    "a lone surrogate": (b'{"user_id": "\\ud800"}', "/user_id"),
    "a user beyond 64 bits": (b'{"user_id": 9223372036854775808}', "/user_id"),
    "an object in a history": (b'{"history": ["i1", {}]}', "/history/1"),
    "a deep history": (b'{"history": ' + b"[" * 300 + b"]" * 300 + b"}", "/history/0"),
    "a history of 1001": (b'{"history": [' + b"1," * 1000 + b"1]}", "/history"),
    "1001 to exclude": (b'{"exclude": [' + b"1," * 1000 + b"1]}", "/exclude"),
    "null to exclude": (b'{"exclude": null}', "/exclude"),
    "1 for trace": (b'{"trace": 1}', "/trace"),
}


@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/explain"])
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_body_that_is_not_json_is_refused(client, path, body):
    problem = check_problem(client.raw(body, path), 400, "malformed-json")
    assert "sys." not in problem["detail"]


@pytest.mark.parametrize(("body", "pointer"), WRONG.values(), ids=WRONG)
def test_error_points_at_the_invalid_field(client, body, pointer):
    problem = check_problem(client.raw(body), 422, "invalid-request")
    assert pointer in [one["pointer"] for one in problem["errors"]]


def test_key_with_a_lone_surrogate_is_refused(client):
    check_problem(client.raw(b'{"\\ud800": 1, "\\ud800x": 2}'), 422, "invalid-request")


def test_number_of_reported_errors_is_limited(client):
    problem = check_problem(client.raw(b'{"history": [' + b'"",' * 999 + b'""]}'), 422, "invalid-request")
    assert len(problem["errors"]) == 20
    assert problem["detail"].endswith("and 999 more")


def test_long_key_is_truncated_in_the_error(client):
    problem = check_problem(client.raw(b'{"' + b"x" * 900_000 + b'": 1}'), 422, "invalid-request")
    assert len(problem["errors"][0]["pointer"]) == 200


def test_body_of_two_megabytes_is_too_large(client):
    check_problem(client.raw(b'"' + b"x" * 2_000_000 + b'"'), 413, "body-too-large")


def test_chunked_body_is_counted_while_it_arrives(client):
    sent = []

    async def pieces():
        for number in range(1000):
            sent.append(number)
            yield b" " * 100_000

    check_problem(client.raw(pieces()), 413, "body-too-large")
    assert len(sent) < 150


def test_small_chunked_body_is_answered(client):
    async def pieces():
        yield b'{"k": '
        yield b"2}"

    assert len(client.raw(pieces()).json()["items"]) == 2


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "application/json; charset=latin1",
    ],
)
def test_only_json_in_utf8_is_accepted(client, kind):
    answer = client.post("/v1/recommend", content=b"{}", headers={"Content-Type": kind} if kind else {})
    check_problem(answer, 415, "unsupported-media-type")


def test_charset_utf8_is_accepted(client):
    kind = {"Content-Type": 'application/json; charset="UTF-8"'}
    assert client.post("/v1/recommend", content=b"{}", headers=kind).status_code == 200


def test_compressed_body_is_refused(client):
    compressed = gzip.compress(b"{}")
    check_problem(client.raw(compressed, **{"Content-Encoding": "gzip"}), 415, "unsupported-media-type")


def test_body_that_never_ends_times_out():
    async def forever():
        yield b"{"
        await asyncio.sleep(60)

    with served(limits=Limits(body_seconds=0.01)) as client:
        check_problem(client.raw(forever()), 408, "body-timeout")


def test_disconnected_client_gets_no_response_and_is_counted():
    app = make_app(recommender_of())
    sent = []

    async def disconnect():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/recommend",
        "headers": [(b"content-type", b"application/json")],
    }
    with client_of(app) as client:
        client.portal.call(app, scope, disconnect, send)
        assert (
            'shortlist_requests_total{route="/v1/recommend",status="499"} 1.0' in client.get("/metrics").text
        )
    assert sent == []


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/recommend/", "/docs", "/redoc", "/v1/recommend/%0d%0a", "/../etc"]
)
def test_other_paths_are_not_found(client, path):
    check_problem(client.get(path), 404, "not-found")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PATCH", "BREW"])
def test_other_methods_are_not_allowed(client, method):
    answer = client.request(
        method, "/v1/recommend", headers={"Content-Type": "application/json"}, content=b"{}"
    )
    check_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "POST"


def test_every_code_has_a_status_of_its_class():
    assert all(400 <= status < 600 and title for status, title in CODES.values())
