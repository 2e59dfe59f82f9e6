"""Error responses."""

import json

import pytest
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from shortlist.serve.problems import MAX_ERRORS, MAX_POINTER, MEDIA_TYPE, RefusedError, declare, install
from shortlist.serve.request_context import RequestContext
from shortlist.serve.schemas import FieldError


def handled(error):
    """The response of an app with our handlers to an error."""
    app = FastAPI()
    install(app)
    handler = next(
        app.exception_handlers[kind] for kind in type(error).__mro__ if kind in app.exception_handlers
    )
    return handler(Request({"type": "http", "state": {"context": RequestContext("r1", 0.0)}}), error)


def wrong(*places):
    return RequestValidationError(
        [{"type": "id", "loc": ("body", *place), "msg": "wrong"} for place in places]
    )


def test_error_response_has_all_fields_of_rfc_9457():
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


def test_codes_of_one_status_are_declared_together_with_the_internal_error():
    problem = {status: one["description"] for status, one in declare("unknown-item", "not-found").items()}
    assert problem == {
        404: "The item is not in the catalogue (`unknown-item`); The path does not exist (`not-found`)",
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
def test_detail_points_at_the_invalid_field(place, detail):
    assert json.loads(handled(wrong(place)).body)["detail"] == detail


def test_pointer_and_list_of_errors_are_limited():
    problem = json.loads(handled(wrong(*[("x" * 1000,)] * 50)).body)
    assert problem["errors"] == [{"pointer": "/" + "x" * (MAX_POINTER - 1), "message": "wrong"}] * MAX_ERRORS
    assert problem["detail"].endswith(": wrong; and 49 more")


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (404, 404, "not-found"),
        (405, 405, "method-not-allowed"),
        (400, 400, "malformed-json"),
        (418, 500, "internal-error"),
    ],
)
def test_errors_of_the_framework_become_problems(raised, status, code):
    answer = handled(HTTPException(raised, "message of the framework", {"Allow": "POST"}))
    problem = json.loads(answer.body)
    assert (answer.status_code, problem["code"], answer.headers["allow"]) == (status, code, "POST")
    assert "framework" not in problem["detail"]
