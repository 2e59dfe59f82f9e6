"""Scores of one system: every metric at every cut, user by user, and their means with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.protocol.measures import USUAL
from shortlist.metrics.coverage import coverage, gini, novelty
from shortlist.metrics.ranking import METRICS, Relevant
from shortlist.metrics.significance import Interval, PairedTest, bootstrap, bootstraps, paired


@dataclass(frozen=True)
class SystemMetrics:
    """The metrics of one system over all users."""

    users: int
    metrics: Mapping[str, Interval]  # by name, like "recall@20"
    catalog: Mapping[str, float]  # coverage and Gini index, which have no value per user


@dataclass(frozen=True, eq=False)
class Scores:
    """Values per user under names like "recall@20", NaN where a user has none.

    `catalog` holds what only all slates together have, like "coverage@20".
    """

    values: Mapping[str, Tensor]  # each [U]
    catalog: Mapping[str, float]

    def __len__(self) -> int:
        """The number of users."""
        return len(next(iter(self.values.values()), ()))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise ConfigError(f"scores: expected one of {', '.join(self.values)}, got {name!r}")
        return self.values[name]

    def means(self) -> dict[str, float]:
        """The mean of every metric over the users who have a value, then the catalogue metrics."""
        return {name: float(values.nanmean()) for name, values in self.values.items()} | dict(self.catalog)

    def intervals(self, seed: int = 0, samples: int = 1000, level: float = 0.95) -> dict[str, Interval]:
        """The mean of every metric with its bootstrap interval."""
        return dict(zip(self.values, bootstraps([*self.values.values()], seed, samples, level), strict=True))

    def interval(self, name: str, seed: int = 0) -> Interval:
        """The mean of one metric with its bootstrap interval, as in `intervals`."""
        return bootstrap(self[name], seed)

    def summary(self, seed: int = 0) -> SystemMetrics:
        """Means with intervals, without the values of single users."""
        return SystemMetrics(len(self), self.intervals(seed), self.catalog)

    def segment(self, mask: Tensor) -> "Scores":
        """The scores of the users under a mask [U], without catalogue metrics."""
        if mask.shape != (len(self),):
            raise DataError(f"scores: expected a mask of {len(self)} users, got shape {list(mask.shape)}")
        return Scores({name: values[mask] for name, values in self.values.items()}, {})

    def against(self, other: "Scores", name: str, seed: int = 0, samples: int = 1000) -> PairedTest:
        """The paired test of this system against another by one metric, on the same users."""
        return paired(self[name], other[name], seed, samples)


def summaries(systems: Mapping[str, Scores], seed: int = 0) -> dict[str, SystemMetrics]:
    """The summary of every system on the same users; all share their bootstrap samples."""
    columns = [values for scores in systems.values() for values in scores.values.values()]
    intervals = iter(bootstraps(columns, seed))
    return {
        name: SystemMetrics(len(one), {metric: next(intervals) for metric in one.values}, one.catalog)
        for name, one in systems.items()
    }


def score_slates(
    ranked: Tensor,
    relevant: Tensor | Relevant,
    ks: Sequence[int] = (10, 20, 50),
    popularity: Tensor | None = None,
    n_users: int | None = None,
    names: Sequence[str] = USUAL,
) -> Scores:
    """The metrics of these names at every cut for slates [U, K] and relevant items [U, R].

    With the `popularity` [n_items] of the items among the `n_users` training users, novelty, coverage and Gini index
    are included, if they are among the names.
    """
    known = relevant if isinstance(relevant, Relevant) else Relevant.of(relevant)
    values = known.metrics(ranked, [name for name in names if name in METRICS], ks)
    if popularity is None:
        return Scores(values, {})
    if n_users is None:
        raise ConfigError("score_slates: popularity needs n_users, the number of users it was counted over")
    if "novelty" in names:
        values |= {f"novelty@{k}": novelty(ranked, popularity, n_users, k) for k in ks}
    catalog = {"coverage": coverage, "gini": gini}
    together = {
        f"{name}@{k}": measure(ranked, len(popularity), k)
        for name, measure in catalog.items()
        if name in names
        for k in ks
    }
    return Scores(values, together)
