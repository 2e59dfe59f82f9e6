"""How long work tells the outside how far it is, without knowing who listens."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Progress = Callable[[str, int, int], None]  # (what, done, total)

Thing = TypeVar("Thing")


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def told(things: Sequence[Thing], what: str, progress: Progress) -> Iterator[Thing]:
    """Walk through `things`, telling `progress` before the first and after each."""
    return _told(things, len(things), what, progress)


def _told(things: Iterable[Thing], total: int, what: str, progress: Progress) -> Iterator[Thing]:
    progress(what, 0, total)
    for done, thing in enumerate(things, start=1):
        yield thing
        progress(what, done, total)
