"""Seconds of training by stage, without those of evaluation, and a metric over them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

Clock = Callable[[], float]
SYNCHRONISED = 0.1  # seconds of queued work after which a GPU is waited for


@dataclass(frozen=True)
class Point:
    """The metric of the model as it was after so many seconds of training of all stages."""

    stage: str
    seconds: float
    value: float


@dataclass
class Watch:
    """A progress display that adds up the time between steps.

    The time from the last step of an epoch to the call of `validated` is evaluation, and is left out. Work is queued
    on a GPU, so the watch waits for it from time to time; the last of it may count as evaluation.
    """

    clock: Clock = time.perf_counter
    stages: dict[str, float] = field(default_factory=dict)  # seconds of training
    points: list[Point] = field(default_factory=list)
    _last: float | None = None
    _waited: float = 0.0
    _stage: str = ""

    def __call__(self, task: str, done: int, total: int) -> None:
        """A step is done: the time since the one before belongs to its stage."""
        now = self.clock()
        if torch.cuda.is_available() and now - self._waited > SYNCHRONISED:
            torch.cuda.synchronize()
            now = self._waited = self.clock()
        if self._last is not None:
            self.stages[task] = self.stages.get(task, 0.0) + now - self._last
        self._stage, self._last = task, now

    def begin(self) -> None:
        """What follows is training."""
        self._last = self.clock()

    def validated(self, value: float) -> None:
        """The evaluation after an epoch is over."""
        self.begin()

    def measured(self, value: float) -> None:
        """The metric as it is now; what was done since the last step to compute it is no training."""
        self.points.append(Point(self._stage, self.seconds, value))
        self.begin()

    def copy(self) -> "Watch":
        """Another watch that goes on from here."""
        return Watch(self.clock, dict(self.stages), list(self.points))

    @property
    def seconds(self) -> float:
        """Seconds of training of all stages."""
        return sum(self.stages.values())
