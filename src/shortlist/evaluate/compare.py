"""Systems against each other and against the yardsticks, on the same users."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shortlist.errors import DataError
from shortlist.evaluate.scores import Scores
from shortlist.metrics.holm import holm
from shortlist.metrics.significance import Comparison

SURE = 0.05  # a p-value below this, corrected for all pairs, is no chance
SAMPLES = 2000  # draws for an interval and for a p-value, which cannot be smaller than one in so many


@dataclass(frozen=True)
class Pair:
    """What one system is above another by the metric that decides; `p_holm` is corrected for all pairs of a contest."""

    system: str
    against: str
    found: Comparison
    p_holm: float

    @property
    def sure(self) -> bool:
        """Whether the interval of the difference leaves out 0, and the corrected p-value says so too."""
        return (self.found.above or self.found.below) and self.p_holm < SURE

    def sentence(self, metric: str) -> str:
        """What was found, in words."""
        found, word = self.found, "is not clearly apart from"
        if self.sure:
            word = "beats" if found.above else "is beaten by"
        reach = f"[{found.low:+.4f}, {found.high:+.4f}]"
        return f"{self.system} {word} {self.against}: {metric} {found.difference:+.4f} {reach}."

    def as_dict(self) -> dict[str, Any]:
        return {
            "system": self.system,
            "against": self.against,
            **vars(self.found),
            "p_holm": self.p_holm,
            "sure": self.sure,
        }


@dataclass(frozen=True, eq=False)
class Contest:
    """Scores of systems and yardsticks, and the pairs: all against the first, all against the best yardstick."""

    metric: str
    systems: Mapping[str, Scores]
    baselines: Mapping[str, Scores]
    best_yardstick: str
    pairs: tuple[Pair, ...]
    popularity: tuple[Pair, ...]  # every system against popularity, for warnings; no part of the correction

    @property
    def users(self) -> int:
        return len(next(iter(self.systems.values())))

    def as_dict(self, seed: int = 0) -> dict[str, Any]:
        """Plain values."""
        return {
            "users": self.users,
            "metric": self.metric,
            "best yardstick": self.best_yardstick,
            "systems": {name: one.as_dict(seed) for name, one in self.systems.items()},
            "yardsticks": {name: one.as_dict(seed) for name, one in self.baselines.items()},
            "comparisons": [pair.as_dict() for pair in self.pairs],
        }


def compare(
    systems: Mapping[str, Scores],
    baselines: Mapping[str, Scores],
    metric: str = "recall@20",
    seed: int = 0,
    samples: int = SAMPLES,
) -> Contest:
    """Every system against the first one, and each against the yardstick that is best by the metric.

    The first of the yardsticks is popularity.
    """
    _check(systems, baselines)
    everyone = {**baselines, **systems}
    first, *others = systems
    best = max(baselines, key=lambda name: float(baselines[name][metric].nanmean().nan_to_num()))

    def paired(system: str, against: str) -> Pair:
        found = everyone[system].against(everyone[against], metric, seed, samples)
        return Pair(system, against, found, found.p_value)

    pairs = [paired(name, first) for name in others] + [paired(name, best) for name in systems]
    popular = tuple(paired(name, next(iter(baselines))) for name in systems)
    return Contest(metric, systems, baselines, best, _corrected(pairs), popular)


def _check(systems: Mapping[str, Scores], baselines: Mapping[str, Scores]) -> None:
    counts = {name: len(one) for name, one in {**systems, **baselines}.items()}
    if not systems or not baselines or set(systems) & set(baselines) or len(set(counts.values())) != 1:
        raise DataError(
            "compare: expected systems and yardsticks of different names with scores of the same users, "
            f"got {counts}"
        )


def _corrected(pairs: list[Pair]) -> tuple[Pair, ...]:
    honest = holm([pair.found.p_value for pair in pairs])
    return tuple(replace(pair, p_holm=p) for pair, p in zip(pairs, honest, strict=True))
