"""A part of a diagnosis that could not be measured."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NotMeasured:
    """The reason why there are no numbers."""

    why: str
