"""The outermost layer: names, times, counts and logs every request, and answers when all else failed."""

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shortlist.serve.log import LOGGER
from shortlist.serve.metrics import Metrics
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import Visit, welcome

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
GONE = 499  # the client left before an answer; no one sees this status but our log


class Watch:
    """ASGI middleware around everything; `paths` are the routes that may be told apart in metrics and log."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: Collection[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = welcome(scope)
        sent = _Sent(send, visit.request_id)
        try:
            await self.app(scope, receive, sent)
        # The last line: whatever went wrong, who asked gets an answer, without internals.
        except Exception:  # noqa: BLE001
            LOGGER.exception("failed", extra={"fields": {"request_id": visit.request_id}})
            if not sent.status:
                failed = RefusedError(
                    "internal-error", "the request failed; the log of the service knows why"
                )
                await failed.response(visit.request_id)(scope, receive, sent)
        finally:
            self._record(scope, visit, sent.status or GONE)

    def _record(self, scope: Scope, visit: Visit, status: int) -> None:
        route = scope["path"] if scope["path"] in self.paths else "other"
        ms = visit.ms()
        fields = {
            "request_id": visit.request_id,
            "method": scope["method"] if scope["method"] in METHODS else "other",
            "route": route,
            "status": status,
            "ms": ms,
        }
        self.metrics.answered(route, status, ms)
        LOGGER.info("request", extra={"fields": fields})


class _Sent:
    """A `send` that remembers the status and adds the name of the request."""

    def __init__(self, send: Send, request_id: str) -> None:
        self.send, self.request_id, self.status = send, request_id, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            MutableHeaders(scope=message)["X-Request-Id"] = self.request_id
        await self.send(message)
