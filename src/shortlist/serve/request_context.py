"""What is known of a request before anyone has read it."""

import re
import uuid
from dataclasses import dataclass
from time import perf_counter

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

SAFE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Visit:
    """The name of a request and when it came."""

    request_id: str
    began: float  # seconds of a clock that only counts

    def ms(self) -> float:
        """How long ago it came."""
        return round((perf_counter() - self.began) * 1e3, 3)


def welcome(scope: Scope) -> Visit:
    """A visit named by its `X-Request-Id` if that is safe to print, else by us."""
    given = Headers(scope=scope).get("x-request-id", "")
    visit = Visit(given if SAFE.fullmatch(given) else uuid.uuid4().hex, perf_counter())
    scope["state"] = {**scope.get("state", {}), "visit": visit}
    return visit


def visit_of(request: Request) -> Visit:
    """The visit that a request belongs to."""
    visit: Visit = request.state.visit
    return visit
