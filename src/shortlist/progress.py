"""Progress reports of long work, independent of the display."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Progress = Callable[[str, int, int], None]  # (task, done, total)

Step = TypeVar("Step")


def silent(task: str, done: int, total: int) -> None:
    """Report nothing."""


def tracked(steps: Sequence[Step], task: str, progress: Progress) -> Iterator[Step]:
    """Iterate over `steps` and call `progress` before the first one and after each."""
    total = len(steps)
    progress(task, 0, total)
    for done, step in enumerate(steps, start=1):
        yield step
        progress(task, done, total)
