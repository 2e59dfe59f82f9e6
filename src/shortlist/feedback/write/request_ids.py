"""Request ids of one process: they increase, and no other process that writes into the same log has them."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from shortlist.errors import ArtifactError
from shortlist.feedback.parts import WriterBusyError
from shortlist.feedback.write.from_trace import request_id

WRITERS = 256  # the writer has 8 bits of an id

W = TypeVar("W")


class RequestIds:
    """New ids for the requests of one writer; a clock that goes backwards makes none twice."""

    def __init__(self, writer: int) -> None:
        self.writer, self._latest, self._counter = writer, 0, 0

    def new(self, ts_ms: int) -> int:
        """An id for a request at this time; one thread at a time."""
        self._counter += 1
        # After 4,096 ids of one millisecond the counter would begin again.
        step = 1 if self._counter % 4096 == 0 and ts_ms <= self._latest else 0
        self._latest = max(ts_ms, self._latest + step)
        return request_id(self._latest, self.writer, self._counter)


def free_writer(root: Path, make: Callable[[int], W]) -> tuple[int, W]:
    """The first writer number that no other process has, and what `make` opens with it."""
    for number in range(WRITERS):
        try:
            return number, make(number)
        except WriterBusyError:
            continue
    raise ArtifactError(
        f"{root}: expected at most {WRITERS} processes that write into a log; use another folder"
    )
