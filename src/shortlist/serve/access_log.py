"""The outermost middleware: request id, time, metrics and log of every request, and a 500 for unhandled errors."""

from collections.abc import Callable, Collection

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shortlist.serve.log import LOGGER
from shortlist.serve.metrics import Metrics
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import RequestContext, new_context

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CLIENT_CLOSED = 499  # the client left before an answer; only the log shows this status


class AccessLog:
    """ASGI middleware; `paths` are the routes that metrics and log distinguish.

    Responses carry `Connection: close` when `draining` says so.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        paths: Collection[str],
        draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self.app, self.metrics, self.paths, self.draining = app, metrics, paths, draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        context = new_context(scope)
        recorder = _Recorder(send, context.request_id, self.draining)
        try:
            await self.app(scope, receive, recorder)
        # Any unhandled error becomes a 500 without internals.
        except Exception:  # noqa: BLE001
            LOGGER.exception("failed", extra={"fields": {"request_id": context.request_id}})
            if not recorder.status:
                failed = RefusedError(
                    "internal-error", "the request failed; the cause is in the log of the service"
                )
                await failed.response(context.request_id)(scope, receive, recorder)
        finally:
            self._record(scope, context, recorder.status or CLIENT_CLOSED)

    def _record(self, scope: Scope, context: RequestContext, status: int) -> None:
        route = scope["path"] if scope["path"] in self.paths else "other"
        ms = context.ms()
        fields = {
            "request_id": context.request_id,
            "method": scope["method"] if scope["method"] in METHODS else "other",
            "route": route,
            "status": status,
            "ms": ms,
        }
        self.metrics.answered(route, status, ms)
        LOGGER.info("request", extra={"fields": fields})


class _Recorder:
    """A `send` that records the status and adds the request id, and `Connection: close` while draining."""

    def __init__(self, send: Send, request_id: str, draining: Callable[[], bool]) -> None:
        self.send, self.request_id, self.draining, self.status = send, request_id, draining, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.request_id
            if self.draining():
                headers["Connection"] = "close"
        await self.send(message)
