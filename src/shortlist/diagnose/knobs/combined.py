"""Several changes of a pipeline put together, by what each of them adds alone."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from shortlist.diagnose.knobs.sizes import Dial, Key
from shortlist.diagnose.knobs.trials import PRESENT, Setting, Trial
from shortlist.grammar import Pipeline

COMBINED = 6  # settings of several changes that are worth measuring
POINTS = 200  # expected settings kept while changes are put together


@dataclass(frozen=True)
class _Point:
    """Changes with what they are expected to add to the median time and the metric."""

    changes: tuple[tuple[Key, int], ...] = ()
    ms: float = 0.0
    worth: float = 0.0

    def plus(self, other: "_Point") -> "_Point":
        return _Point(self.changes + other.changes, self.ms + other.ms, self.worth + other.worth)


def combined(
    pipeline: Pipeline, known: Sequence[Dial], tried: Mapping[str, Trial], budget_ms: float, metric: str
) -> list[Setting]:
    """Settings of several changes worth measuring, if what each adds alone added up."""
    points = [_Point()]
    for dial in known:
        points = _undominated(point.plus(turn) for point in points for turn in _turns(dial, tried, metric))
    whole = [point for point in points if len(point.changes) > 1]
    fitting = [point for point in whole if _late(point, tried[PRESENT]) <= budget_ms]
    best = max(fitting, key=lambda point: (point.worth, -point.ms), default=None)
    chosen = [*([] if best is None else [best]), *_spread(fitting or whole[:1], COMBINED)]
    taken = {tuple(sorted(one.setting.changes.items())) for one in tried.values()}
    exclude_seen = (point for point in dict.fromkeys(chosen) if tuple(sorted(point.changes)) not in taken)
    return [Setting.of(pipeline, dict(point.changes)) for point in exclude_seen][:COMBINED]


def _turns(dial: Dial, tried: Mapping[str, Trial], metric: str) -> list[_Point]:
    """What each measured size of a dial adds to the present setting, its own size among them."""
    present, points = tried[PRESENT], [_Point()]
    for one in tried.values():
        if list(one.setting.changes) == [dial.key]:
            ms = one.times.median_ms - present.times.median_ms
            worth = one.worth(metric) - present.worth(metric)
            points.append(_Point(tuple(one.setting.changes.items()), ms, worth))
    return points


def _late(point: _Point, present: Trial) -> float:
    """What 95 % would stay within: the present setting's, in proportion to the median, which scatters less."""
    times = present.times
    return times.p95_ms * max(times.median_ms + point.ms, 0.0) / max(times.median_ms, 1e-9)


def foretold(trials: Mapping[str, Trial], known: Sequence[Dial], metric: str) -> dict[str, Trial]:
    """The same trials; those made of several single ones also say what those would add up to."""
    single = {point.changes: point for dial in known for point in _turns(dial, trials, metric)}
    return {name: _foretold(one, trials[PRESENT], single, metric) for name, one in trials.items()}


def _foretold(
    one: Trial, present: Trial, single: Mapping[tuple[tuple[Key, int], ...], _Point], metric: str
) -> Trial:
    parts = [single.get((change,)) for change in one.setting.changes.items()]
    found = [part for part in parts if part is not None]
    if len(parts) < 2 or len(found) < len(parts):
        return one
    point = reduce(_Point.plus, found)
    expected = one.setting.foretold(_late(point, present), present.worth(metric) + point.worth)
    return replace(one, setting=expected)


def _undominated(points: Iterable[_Point]) -> list[_Point]:
    """Those no other beats in time and metric, the fastest first, thinned when there are too many."""
    kept: list[_Point] = []
    for point in sorted(points, key=lambda one: (one.ms, -one.worth, len(one.changes))):
        if not kept or point.worth > kept[-1].worth:
            kept.append(point)
    return _spread(kept, POINTS)


def _spread(points: Sequence[_Point], count: int) -> list[_Point]:
    """So many points evenly along the list, both ends among them."""
    if len(points) <= count:
        return list(points)
    return [points[round(at * (len(points) - 1) / (count - 1))] for at in range(count)]
