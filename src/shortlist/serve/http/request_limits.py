"""Limits on requests: headers, size, time and media type of the body, checked before a route reads it."""

import asyncio
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shortlist.serve.http.json_body import check_json
from shortlist.serve.limits import Limits
from shortlist.serve.problems import RefusedError

CLOSE = {"Connection": "close"}
DISCARDED = (
    10  # a refused body is read on up to so many times the limit, so that its sender sees the response
)


class RequestLimits:
    """ASGI middleware that passes a request on only if it keeps the limits; `with_body` are the paths with POST."""

    def __init__(self, app: ASGIApp, limits: Limits, with_body: Collection[str]) -> None:
        self.app, self.limits, self.with_body = app, limits, with_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            _check_header_size(scope, self.limits.header_bytes)
            # Other methods and paths go on without a look at the body: 404 and 405 come before 413 and 415.
            if scope["method"] == "POST" and scope["path"] in self.with_body:
                body = await self._checked_body(scope, receive)
                receive = _replay(body, receive)
        except RefusedError as refused:
            await self._refuse(refused, scope, receive, send)
        except ConnectionError:
            return  # nobody is left to read a response
        else:
            await self.app(scope, receive, send)

    async def _checked_body(self, scope: Scope, receive: Receive) -> bytes:
        headers = Headers(scope=scope)
        self._check_announced(headers)
        _check_media_type(headers)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                body = await self._read(receive)
        except TimeoutError as error:
            late = f"the body was not complete after {self.limits.body_seconds:g} seconds"
            raise RefusedError("body-timeout", late, headers=CLOSE) from error
        check_json(body)
        return body

    def _check_announced(self, headers: Headers) -> None:
        """Refuse an announced length beyond the limit before anything of the body is read."""
        announced = headers.get("content-length", "")
        if announced.isdecimal() and len(announced) <= 20 and int(announced) > self.limits.body_bytes:
            raise self._too_large()

    async def _read(self, receive: Receive) -> bytes:
        """The whole body, counted while it arrives: a chunked body announces no length."""
        body, more = bytearray(), True
        while more:
            piece, more = await _next_piece(receive)
            body += piece
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
        return bytes(body)

    def _too_large(self) -> RefusedError:
        large = f"the body is larger than {self.limits.body_bytes} bytes; send fewer ids"
        return RefusedError("body-too-large", large, headers=CLOSE)

    async def _refuse(self, refused: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response at once; a client that is still sending would lose it if the connection closed."""
        response = refused.response(scope["state"]["context"].request_id)
        if refused.code != "body-too-large" or "expect" in Headers(scope=scope):
            await response(scope, receive, send)
            return
        await response(scope, receive, _unfinished(send))
        await self._discard(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _discard(self, receive: Receive) -> None:
        size, more = 0, True
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while more and size <= DISCARDED * self.limits.body_bytes:
                    piece, more = await _next_piece(receive)
                    size += len(piece)
        except (TimeoutError, ConnectionError):
            return


async def _next_piece(receive: Receive) -> tuple[bytes, bool]:
    """The next bytes of the body and whether more follow; ConnectionError if the client disconnected."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ConnectionError
    return message.get("body", b""), message.get("more_body", False)


def _check_header_size(scope: Scope, limit: int) -> None:
    line = len(scope.get("raw_path") or scope["path"]) + len(scope.get("query_string", b""))
    if line + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > limit:
        large = f"the request line and headers are larger than {limit} bytes; send fewer"
        raise RefusedError("headers-too-large", large, headers=CLOSE)


def _check_media_type(headers: Headers) -> None:
    media, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = parameters.replace(" ", "").replace('"', "")
    if media.strip() != "application/json" or charset not in ("", "charset=utf-8"):
        raise RefusedError(
            "unsupported-media-type", "send the body with Content-Type: application/json, in UTF-8"
        )
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedError("unsupported-media-type", "send the body without Content-Encoding")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body in one message, then further messages."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


def _unfinished(send: Send) -> Send:
    """A `send` that leaves the response open; its length is declared, so a client has it completely."""

    async def open_end(message: Message) -> None:
        await send({**message, "more_body": True} if message["type"] == "http.response.body" else message)

    return open_end
