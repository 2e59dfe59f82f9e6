"""Progress reports of long work, independent of the display."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

Progress = Callable[[str, int, int], None]  # (task, done, total)

Step = TypeVar("Step")


@runtime_checkable
class TakesNotes(Protocol):
    """A display that also shows a remark beside a task, such as the metric of the last epoch."""

    def note(self, task: str, text: str) -> None: ...


def silent(task: str, done: int, total: int) -> None:
    """Report nothing."""


def note(progress: object, task: str, text: str) -> None:
    """Add a remark to a task, where the display can show one."""
    if isinstance(progress, TakesNotes):
        progress.note(task, text)


def tracked(steps: Sequence[Step], task: str, progress: Progress) -> Iterator[Step]:
    """Iterate over `steps` and call `progress` before the first one and after each."""
    total = len(steps)
    progress(task, 0, total)
    for done, step in enumerate(steps, start=1):
        yield step
        progress(task, done, total)


@dataclass(frozen=True)
class Labelled:
    """The same display, with a label before the name of every task."""

    progress: Progress
    label: str

    def __call__(self, task: str, done: int, total: int) -> None:
        self.progress(self.label + task, done, total)

    def note(self, task: str, text: str) -> None:
        note(self.progress, self.label + task, text)
