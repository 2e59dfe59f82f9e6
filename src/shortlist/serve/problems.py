"""Every way to be refused: one table of codes, one shape, RFC 9457."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shortlist.serve.request_context import visit_of
from shortlist.serve.schemas import FieldError, Problem

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 20  # of one body; a thousand wrong ids need no thousand lines
MOST_POINTER = 200  # characters; the key of an unknown field can be as long as the body

CODES: Mapping[str, tuple[int, str]] = {
    "malformed-json": (400, "The body is not JSON"),
    "not-found": (404, "There is nothing at this path"),
    "unknown-item": (404, "The item is not in the catalogue"),
    "method-not-allowed": (405, "The path does not take this method"),
    "body-timeout": (408, "The body did not arrive in time"),
    "body-too-large": (413, "The body is too large"),
    "unsupported-media-type": (415, "The body is not plain application/json"),
    "invalid-request": (422, "The request is not what it should be"),
    "internal-error": (500, "The service failed"),
    "overloaded": (503, "Too many requests are waiting"),
    "not-ready": (503, "The service is starting or stopping"),
}
BY_STATUS = {
    400: "malformed-json",
    404: "not-found",
    405: "method-not-allowed",
}  # what the framework itself says


class RefusedError(Exception):
    """A request that gets no answer; the detail is meant for who asked."""

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
        """The refusal as it goes over the wire."""
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
    """The statuses of these codes and of a failure, as they stand in OpenAPI."""
    titles: dict[int | str, list[str]] = {}
    for code in sorted({*codes, "internal-error"}, key=lambda code: CODES[code]):
        titles.setdefault(CODES[code][0], []).append(f"{CODES[code][1]} (`{code}`)")
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": "; ".join(lines), "content": content} for status, lines in titles.items()}


def install(app: FastAPI) -> None:
    """Let the app answer its own refusals in our shape."""
    app.add_exception_handler(RefusedError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _spoken)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return error.response(visit_of(request).request_id)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found = error.errors()
    errors = [FieldError(pointer=_pointer(one["loc"][1:]), message=one["msg"]) for one in found[:MOST_ERRORS]]
    more = f"; and {len(found) - 1} more" if len(found) > 1 else ""
    detail = f"{errors[0].pointer or 'the body'}: {errors[0].message}{more}"
    return _refused(request, RefusedError("invalid-request", detail, errors))


def _spoken(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = BY_STATUS.get(error.status_code, "internal-error")
    return _refused(request, RefusedError(code, CODES[code][1].lower(), headers=error.headers))


def _pointer(place: Sequence[int | str]) -> str:
    """A JSON pointer that can be printed: what is no text (a lone surrogate) becomes a question mark."""
    keys = (str(key).replace("~", "~0").replace("/", "~1") for key in place)
    whole = "".join(f"/{key}" for key in keys)[:MOST_POINTER]
    return whole.encode("utf-8", "replace").decode()
