"""Progress as lines of text, where there is no terminal to draw bars on."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from shortlist.errors import visible

SECONDS = 10.0  # least time between two lines
SHARE = 0.1  # a long task is reported after every tenth of its time


@dataclass
class _Task:
    started: float
    done: int = 0  # at the start of the task: a resumed one begins in the middle
    note: str = ""
    shown: bool = False


@dataclass
class ProgressLines:
    """Writes a line about the running task every ten seconds, and less often while a long one runs.

    A task that was shown once is also shown at its end. Work of less than ten seconds is not shown.
    """

    write: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    tasks: dict[str, _Task] = field(default_factory=dict)
    last: float | None = None  # time of the last line, or of the first report

    def __call__(self, task: str, done: int, total: int) -> None:
        now = self.clock()
        self.last = now if self.last is None else self.last
        own = self.tasks.setdefault(task, _Task(now, done))
        ended = done >= total
        if (ended and own.shown) or (not ended and now - self.last >= self._interval(own, now)):
            self.last, own.shown = now, not ended
            self.write(_line(task, own, done, total, now - own.started))

    def note(self, task: str, text: str) -> None:
        """Remember a remark for the next line of a task."""
        self.tasks.setdefault(task, _Task(self.clock())).note = text

    def _interval(self, task: _Task, now: float) -> float:
        return max(SECONDS, SHARE * (now - task.started))


def _line(name: str, task: _Task, done: int, total: int, seconds: float) -> str:
    """`sasrec: 5 %, epoch 3 of 60, recall@20 0.1230, 40 s, about 6 min left`."""
    parts = [f"{done / max(total, 1):.0%}".replace("%", " %"), task.note, in_words(seconds)]
    worked = done - task.done
    if done < total and worked > 0:
        parts.append(f"about {in_words(seconds / worked * (total - done))} left")
    return f"{visible(name)}: {', '.join(part for part in parts if part)}"


def in_words(seconds: float) -> str:
    """A duration such as 40 s, 6 min or 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
