"""Limits on request bodies: size, time, media type and valid JSON, checked before a route reads them."""

import asyncio
import json
from typing import Any, NoReturn

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shortlist.serve.limits import Limits
from shortlist.serve.problems import RefusedError

WITH_BODY = ("POST", "PUT", "PATCH")


class BodyLimits:
    """ASGI middleware that passes a body on only if it keeps the limits."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in WITH_BODY:
            await self.app(scope, receive, send)
            return
        try:
            body = await self._checked_body(scope, receive)
        except RefusedError as refused:
            await refused.response(scope["state"]["context"].request_id)(scope, receive, send)
            return
        if body is not None:
            await self.app(scope, _replay(body, receive), send)

    async def _checked_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body, or None if the client disconnected before its end."""
        _check_headers(Headers(scope=scope))
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                body = await self._read(receive)
        except TimeoutError as error:
            late = f"the body was not complete after {self.limits.body_seconds:g} seconds"
            raise RefusedError("body-timeout", late, headers={"Connection": "close"}) from error
        if body is not None:
            _check_json(body)
        return body

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body, counted while it arrives: a chunked body announces no length.

        Bytes beyond the limit are discarded, up to ten times the limit: a client that is still sending would
        otherwise see a closed connection instead of the response.
        """
        kept, size, more = bytearray(), 0, True
        while more and size <= 10 * self.limits.body_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece, more = message.get("body", b""), message.get("more_body", False)
            size += len(piece)
            kept += piece if size <= self.limits.body_bytes else b""
        if size > self.limits.body_bytes:
            large = f"the body is larger than {self.limits.body_bytes} bytes"
            raise RefusedError("body-too-large", large, headers={"Connection": "close"})
        return bytes(kept)


def _check_headers(headers: Headers) -> None:
    media, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    if media.strip() != "application/json" or charset not in ("", "charset=utf-8"):
        raise RefusedError(
            "unsupported-media-type", "send the body with Content-Type: application/json, in UTF-8"
        )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError("unsupported-media-type", "send the body without Content-Encoding")


def _check_json(body: bytes) -> None:
    """Refuse a body that is not UTF-8, not JSON, nested too deeply, or has duplicate keys."""
    try:
        # As text: json would guess at UTF-16 and UTF-32 from bytes.
        json.loads(body.decode(), parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg} at line {error.lineno} column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise _malformed("it is nested too deeply") from error
    except ValueError as error:  # Python refuses integers of thousands of digits
        raise _malformed("a number has too many digits") from error


def _refuse_constant(literal: str) -> NoReturn:
    raise _malformed(f"{literal} is not a JSON number")


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _malformed("an object holds the same key twice")
    return values


def _malformed(reason: str) -> RefusedError:
    return RefusedError("malformed-json", f"the body cannot be read: {reason}")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body in one message, then further messages."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again
