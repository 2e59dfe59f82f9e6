"""What every system reached at every point, and its paired differences over seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shortlist.lab.experiments.components.pools.methods import Method
from shortlist.lab.experiments.components.pools.points import Point
from shortlist.lab.experiments.components.pools.runs import METRICS
from shortlist.metrics.t_tests import paired_t

Floats = NDArray[np.float64]
PRECISION, RECALL = METRICS[0], METRICS[1]


@dataclass(frozen=True)
class Gap:
    """A difference with its 95 % interval over seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> "Gap":
        """From one difference per seed; a single seed has no interval."""
        if len(values) < 2:
            return cls(float(values[0]), float(values[0]), float(values[0]))
        test = paired_t(values.tolist(), [0.0] * len(values))
        return cls(test.difference, test.low, test.high)

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low > 0

    @property
    def interval(self) -> tuple[float, float]:
        return self.low, self.high


@dataclass(frozen=True, eq=False)
class Table:
    """Values [S, metrics] and facts of every seed, by point and name of a system."""

    values: Mapping[tuple[Point, str], Floats]
    facts: Mapping[tuple[Point, str], Sequence[Mapping[str, Any]]]

    def of(self, point: Point, method: Method | str, metric: str = PRECISION) -> Floats:
        """One value per seed."""
        name = method if isinstance(method, str) else method.name
        found: Floats = self.values[point, name][:, METRICS.index(metric)]
        return found

    def names(self, point: Point) -> list[str]:
        """The systems at a point, in order."""
        return [name for at, name in self.values if at == point]

    def differences(
        self, points: Iterable[Point], one: Method | str, other: Method | str, metric: str = PRECISION
    ) -> Floats:
        """Differences at every point with every seed [P, S]."""
        return np.stack([self.of(at, one, metric) - self.of(at, other, metric) for at in points])

    def gap(
        self, points: Iterable[Point], one: Method | str, other: Method | str, metric: str = PRECISION
    ) -> Gap:
        """The difference of two systems, averaged over points for each seed."""
        return Gap.of(self.differences(points, one, other, metric).mean(0))

    def relative(
        self, points: Sequence[Point], one: Method | str, other: Method | str, metric: str
    ) -> Floats:
        """For each seed the difference over the other's value, averaged over points [S]."""
        gaps = self.differences(points, one, other, metric)
        found: Floats = (gaps / np.stack([self.of(at, other, metric) for at in points])).mean(0)
        return found

    def best(self, point: Point, names: Sequence[str], metric: str = PRECISION) -> str:
        """The system with the highest mean."""
        return max(names, key=lambda name: float(self.of(point, name, metric).mean()))
