"""Id and start time of a request."""

import re
import uuid
from dataclasses import dataclass
from time import perf_counter

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

SAFE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class RequestContext:
    """Id and start time of a request."""

    request_id: str
    began: float  # seconds of a monotonic clock

    def ms(self) -> float:
        """Milliseconds since the request arrived."""
        return round((perf_counter() - self.began) * 1e3, 3)


def new_context(scope: Scope) -> RequestContext:
    """Context with the given `X-Request-Id` if it is safe to print, else with a new id."""
    given = Headers(scope=scope).get("x-request-id", "")
    context = RequestContext(given if SAFE.fullmatch(given) else uuid.uuid4().hex, perf_counter())
    scope["state"] = {**scope.get("state", {}), "context": context}
    return context


def context_of(request: Request) -> RequestContext:
    """The context of a request."""
    context: RequestContext = request.state.context
    return context
