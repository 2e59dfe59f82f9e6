"""Limits of a running service."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits on bodies and concurrency; the limits of single fields are in `schemas`."""

    body_bytes: int = 1_000_000
    body_seconds: float = 5.0  # time a client has to send its body
    in_flight: int = 32  # requests running or waiting; the next one is refused
    drain_seconds: int = 10  # time accepted requests have after SIGTERM
