"""One claim about the mathematics behind an evaluation, tried out on numbers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """What was claimed, on how much it was tried, and what came out."""

    name: str
    size: str
    expected: str
    found: str
    ok: bool
