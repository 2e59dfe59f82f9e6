"""Limits of a running service."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits on requests and concurrency; the limits of single fields are in `schemas`."""

    body_bytes: int = 1_000_000
    body_seconds: float = 5.0  # time a client has to send its body
    header_bytes: int = 16 << 10  # request line and headers together
    in_flight: int = 32  # requests running or waiting; the next one is refused
    notice_seconds: float = 2.0  # time after SIGTERM in which /readyz answers 503 and the port stays open
    drain_seconds: int = 10  # time accepted requests have after the port is closed
    live_events: int = 50_000_000  # of all live users; further ones are refused. Each takes about 50 bytes
