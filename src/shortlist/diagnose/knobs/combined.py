"""Settings of several changes, chosen by the sum of what each change adds alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from shortlist.diagnose.knobs.sizes import Key, Size
from shortlist.diagnose.knobs.trials import CURRENT, SizeSetting, Trial
from shortlist.grammar import Pipeline

COMBINED = 6  # settings of several changes that are measured
POINTS = 200  # predicted settings kept while changes are combined


@dataclass(frozen=True)
class _Point:
    """Changes with what they are predicted to add to the median latency and the metric."""

    changes: tuple[tuple[Key, int], ...] = ()
    ms: float = 0.0
    value: float = 0.0

    def plus(self, other: "_Point") -> "_Point":
        return _Point(self.changes + other.changes, self.ms + other.ms, self.value + other.value)


def combined(
    pipeline: Pipeline, sizes: Sequence[Size], tried: Mapping[str, Trial], budget_ms: float, metric: str
) -> list[SizeSetting]:
    """Settings of several changes worth measuring, if the effects of single changes added up."""
    points = [_Point()]
    for size in sizes:
        points = _undominated(
            point.plus(other) for point in points for other in _singles(size, tried, metric)
        )
    several = [point for point in points if len(point.changes) > 1]
    fitting = [point for point in several if _p95(point, tried[CURRENT]) <= budget_ms]
    best = max(fitting, key=lambda point: (point.value, -point.ms), default=None)
    chosen = [*([] if best is None else [best]), *_spread(fitting or several[:1], COMBINED)]
    taken = {tuple(sorted(one.setting.changes.items())) for one in tried.values()}
    new = (point for point in dict.fromkeys(chosen) if tuple(sorted(point.changes)) not in taken)
    return [SizeSetting.of(pipeline, dict(point.changes)) for point in new][:COMBINED]


def with_predictions(trials: Mapping[str, Trial], sizes: Sequence[Size], metric: str) -> dict[str, Trial]:
    """The same trials; those of several changes with the sum of what the single changes added."""
    single = {point.changes: point for size in sizes for point in _singles(size, trials, metric)}
    return {name: _with_prediction(one, trials[CURRENT], single, metric) for name, one in trials.items()}


def _singles(size: Size, tried: Mapping[str, Trial], metric: str) -> list[_Point]:
    """What each measured value of a size adds to the current setting, the current value among them."""
    current, points = tried[CURRENT], [_Point()]
    for one in tried.values():
        if list(one.setting.changes) == [size.key]:
            ms = one.times.median_ms - current.times.median_ms
            value = one.value(metric) - current.value(metric)
            points.append(_Point(tuple(one.setting.changes.items()), ms, value))
    return points


def _p95(point: _Point, current: Trial) -> float:
    """The predicted 95th percentile: the current one in proportion to the median, which is less noisy."""
    times = current.times
    return times.p95_ms * max(times.median_ms + point.ms, 0.0) / max(times.median_ms, 1e-9)


def _with_prediction(
    one: Trial, current: Trial, single: Mapping[tuple[tuple[Key, int], ...], _Point], metric: str
) -> Trial:
    parts = [single.get((change,)) for change in one.setting.changes.items()]
    known = [part for part in parts if part is not None]
    if len(parts) < 2 or len(known) < len(parts):
        return one
    point = reduce(_Point.plus, known)
    predicted = one.setting.with_prediction(_p95(point, current), current.value(metric) + point.value)
    return replace(one, setting=predicted)


def _undominated(points: Iterable[_Point]) -> list[_Point]:
    """Points that no other beats in latency and metric, the fastest first, thinned when there are too many."""
    kept: list[_Point] = []
    for point in sorted(points, key=lambda one: (one.ms, -one.value, len(one.changes))):
        if not kept or point.value > kept[-1].value:
            kept.append(point)
    return _spread(kept, POINTS)


def _spread(points: Sequence[_Point], count: int) -> list[_Point]:
    """`count` points evenly along the list, both ends among them."""
    if len(points) <= count:
        return list(points)
    return [points[round(at * (len(points) - 1) / (count - 1))] for at in range(count)]
