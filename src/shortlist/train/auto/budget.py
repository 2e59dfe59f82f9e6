"""How often each part of a pipeline is fitted in one training, and what of the time budget is left for epochs."""

import time
from collections.abc import Callable
from dataclasses import dataclass

RESERVE = 0.15  # share of the budget for reading, measuring, comparing and writing
CHOICE = 0.05  # share of the budget for the choice of nominators
LATE = 0.85  # share of the budget after which optional steps are left out
CONTINUED = (
    0.5  # of a fit from the start: the fit on all training events, which continues from the out-of-fold one
)
REFITTED = 0.2  # of a fit from the start: the refit on all events


@dataclass(frozen=True)
class Budget:
    """Seconds of a training: `folds` out-of-fold fits of each nominator, the measured fit, and the refit."""

    seconds: float
    folds: int = 1
    refit: bool = True
    spent: float = 0.0

    @property
    def counts(self) -> int:
        """Fits of a nominator without epochs: each begins anew."""
        return self.folds + 1 + self.refit

    @property
    def epochs(self) -> float:
        """Fits of a nominator with epochs, as a multiple of one from the start: later ones continue."""
        return self.folds + CONTINUED + REFITTED * self.refit

    @property
    def rankers(self) -> int:
        """Fits of a ranker."""
        return 1 + self.refit

    @property
    def left(self) -> float:
        """Seconds that are not planned yet."""
        return max(self.seconds * (1 - RESERVE - CHOICE) - self.spent, 0.0)

    def less(self, seconds: float) -> "Budget":
        """The budget after one more part."""
        return Budget(self.seconds, self.folds, self.refit, self.spent + seconds)


@dataclass(frozen=True)
class Deadline:
    """The budget of a training that runs."""

    seconds: float
    began: float
    clock: Callable[[], float] = time.perf_counter

    @property
    def left(self) -> float:
        """Seconds until the budget is spent."""
        return max(self.seconds - (self.clock() - self.began), 0.0)

    @property
    def late(self) -> bool:
        """Whether optional steps are left out."""
        return self.left < (1 - LATE) * self.seconds
