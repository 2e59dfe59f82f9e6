"""How much the service takes on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a running service may be asked to bear; the sizes of single fields stand in `shapes`."""

    body_bytes: int = 1_000_000
    body_seconds: float = 5.0  # a client that sends slower than this is told so
    in_flight: int = 32  # requests being answered or waiting for it; the next one is refused
    drain_seconds: int = 10  # how long accepted requests may take after SIGTERM
