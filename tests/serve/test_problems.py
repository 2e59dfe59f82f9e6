import json

import pytest
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from shortlist.serve.problems import MEDIA_TYPE, MOST_ERRORS, MOST_POINTER, RefusedError, declare, install
from shortlist.serve.request_context import Visit
from shortlist.serve.schemas import FieldError


def handled(error):
    """What an app with our handlers answers to an error."""
    app = FastAPI()
    install(app)
    handler = next(
        app.exception_handlers[kind] for kind in type(error).__mro__ if kind in app.exception_handlers
    )
    return handler(Request({"type": "http", "state": {"visit": Visit("r1", 0.0)}}), error)


def wrong(*places):
    return RequestValidationError([{"loc": ("body", *place), "msg": "wrong"} for place in places])


def test_a_refusal_over_the_wire_is_all_that_rfc_9457_asks_for():
    refused = RefusedError("overloaded", "try again", [FieldError(pointer="/k", message="no")], {"A": "b"})
    answer = refused.response("r1")
    assert json.loads(answer.body) == {
        "type": "urn:shortlist:problem:overloaded",
        "title": "Too many requests are waiting",
        "status": 503,
        "detail": "try again",
        "instance": "r1",
        "code": "overloaded",
        "errors": [{"pointer": "/k", "message": "no"}],
    }
    assert (answer.status_code, answer.headers["a"], answer.headers["content-type"]) == (503, "b", MEDIA_TYPE)


def test_codes_of_one_status_are_declared_together_and_failure_always_is():
    told = {status: one["description"] for status, one in declare("unknown-item", "not-found").items()}
    assert told == {
        404: "The item is not in the catalogue (`unknown-item`); There is nothing at this path (`not-found`)",
        500: "The service failed (`internal-error`)",
    }


@pytest.mark.parametrize(
    ("place", "detail"),
    [
        ((), "the body: wrong"),
        (("history", 3), "/history/3: wrong"),
        (("a/b~c",), "/a~1b~0c: wrong"),
        (("\ud800",), "/?: wrong"),
    ],
)
def test_the_detail_points_at_the_place(place, detail):
    assert json.loads(handled(wrong(place)).body)["detail"] == detail


def test_a_pointer_and_a_list_of_errors_have_an_end():
    told = json.loads(handled(wrong(*[("x" * 1000,)] * 50)).body)
    assert told["errors"] == [{"pointer": "/" + "x" * (MOST_POINTER - 1), "message": "wrong"}] * MOST_ERRORS
    assert told["detail"].endswith(": wrong; and 49 more")


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        (404, 404, "not-found"),
        (405, 405, "method-not-allowed"),
        (400, 400, "malformed-json"),
        (418, 500, "internal-error"),
    ],
)
def test_what_the_framework_says_is_told_in_our_words(said, status, code):
    answer = handled(HTTPException(said, "words of the framework", {"Allow": "POST"}))
    told = json.loads(answer.body)
    assert (answer.status_code, told["code"], answer.headers["allow"]) == (status, code, "POST")
    assert "framework" not in told["detail"]
