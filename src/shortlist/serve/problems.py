"""Error responses: one table of codes, one format (RFC 9457)."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shortlist.serve.messages import message_of
from shortlist.serve.request_context import context_of
from shortlist.serve.schemas import FieldError, Problem

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20  # reported per body
MAX_POINTER = 200  # characters; an unknown key can be as long as the body

CODES: Mapping[str, tuple[int, str]] = {
    "malformed-http": (400, "The request is not HTTP/1.1"),
    "malformed-json": (400, "The body is not JSON"),
    "not-found": (404, "The path does not exist"),
    "no-log": (404, "The service writes no log"),
    "no-live-users": (404, "The service has no live users"),
    "unknown-item": (404, "The item is not in the catalogue"),
    "method-not-allowed": (405, "The path does not allow this method"),
    "body-timeout": (408, "The body did not arrive in time"),
    "body-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body is not plain application/json"),
    "invalid-request": (422, "A field of the request is invalid"),
    "headers-too-large": (431, "The headers are too large"),
    "internal-error": (500, "The service failed"),
    "overloaded": (503, "Too many requests are waiting"),
    "not-ready": (503, "The service is starting or stopping"),
    "storage": (507, "The events cannot be stored"),
}
BY_STATUS = {400: "malformed-json", 404: "not-found", 405: "method-not-allowed"}  # errors of the framework

BODY_CODES = (
    "malformed-json",
    "not-found",
    "body-timeout",
    "body-too-large",
    "unsupported-media-type",
    "invalid-request",
    "headers-too-large",
    "overloaded",
    "not-ready",
)
"""Codes of every route that takes a body."""


class RefusedError(Exception):
    """A refused request; the detail is meant for the client."""

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.errors, self.headers = code, detail, errors, headers

    def response(self, request_id: str) -> Response:
        """The HTTP response of this error."""
        status, title = CODES[self.code]
        problem = Problem(
            type=f"urn:shortlist:problem:{self.code}",
            title=title,
            status=status,
            detail=self.detail,
            instance=request_id,
            code=self.code,
            errors=list(self.errors),
        )
        return Response(problem.model_dump_json(), status, self.headers, MEDIA_TYPE)


def declare(*codes: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses of these codes and of an internal error."""
    titles: dict[int | str, list[str]] = {}
    for code in sorted({*codes, "internal-error"}, key=lambda code: CODES[code]):
        titles.setdefault(CODES[code][0], []).append(f"{CODES[code][1]} (`{code}`)")
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": "; ".join(lines), "content": content} for status, lines in titles.items()}


def install(app: FastAPI) -> None:
    """Register handlers that turn errors into problem responses."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return error.response(context_of(request).request_id)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    invalid, fields = error.errors(), _fields(request)
    errors = [
        FieldError(pointer=_pointer(one["loc"][1:]), message=message_of(one, fields))
        for one in invalid[:MAX_ERRORS]
    ]
    more = f"; and {len(invalid) - 1} more" if len(invalid) > 1 else ""
    detail = f"{errors[0].pointer or 'the body'}: {errors[0].message}{more}"
    return _refused(request, RefusedError("invalid-request", detail, errors))


def _fields(request: Request) -> str:
    """The fields that a body of this route may have."""
    schema = getattr(request.scope.get("endpoint"), "__annotations__", {}).get("body")
    return ", ".join(getattr(schema, "model_fields", ()))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = BY_STATUS.get(error.status_code, "internal-error")
    headers = dict(error.headers or {})
    detail = CODES[code][1].lower()
    if "Allow" in headers:
        headers["Allow"] = headers["Allow"].replace("GET", "GET, HEAD")
        detail += f"; use {headers['Allow'].replace(', ', ' or ')}"
    return _refused(request, RefusedError(code, detail, headers=headers))


def _pointer(location: Sequence[int | str]) -> str:
    """A printable JSON pointer: a lone surrogate becomes a question mark."""
    keys = (str(key).replace("~", "~0").replace("/", "~1") for key in location)
    pointer = "".join(f"/{key}" for key in keys)[:MAX_POINTER]
    return pointer.encode("utf-8", "replace").decode()
