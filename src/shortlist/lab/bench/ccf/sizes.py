"""Sizes of the benchmark of CCF."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """The log, and how many steps are timed against the plain loops."""

    users: int
    items: int
    events: int
    batch_size: int
    rounds: int
    steps: int  # of ours in a round, for one of each plain loop


SIZES = {
    "full": Size(200_000, 100_000, 10_000_000, 1024, 12, 8),
    "quick": Size(500, 300, 5_000, 128, 2, 2),
}
