"""Scores of one system: every metric at every cut, kept user by user."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.metrics.coverage import coverage, gini, novelty
from shortlist.metrics.ranking import METRICS
from shortlist.metrics.significance import Comparison, Interval, bootstrap, paired


@dataclass(frozen=True, eq=False)
class Scores:
    """Values of the same users under names like "recall@20", NaN where a user has none.

    `whole` holds what only all rankings together have, like "coverage@20": it has no user and no interval.
    """

    values: Mapping[str, Tensor]  # each [U]
    whole: Mapping[str, float]

    def __len__(self) -> int:
        """How many users were scored."""
        return len(next(iter(self.values.values()), ()))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.values:
            raise ConfigError(f"scores: expected one of {', '.join(self.values)}, got {name!r}")
        return self.values[name]

    def means(self) -> dict[str, float]:
        """The mean of every metric over the users who have a value, then the values of the whole."""
        return {name: float(values.nanmean()) for name, values in self.values.items()} | dict(self.whole)

    def intervals(self, seed: int = 0, samples: int = 1000, level: float = 0.95) -> dict[str, Interval]:
        """The mean of every metric with its bootstrap interval."""
        return {name: bootstrap(values, seed, samples, level) for name, values in self.values.items()}

    def segment(self, mask: Tensor) -> "Scores":
        """The scores of the users under a mask [U]; what belongs to the whole is left behind."""
        if mask.shape != (len(self),):
            raise DataError(f"scores: expected a mask of {len(self)} users, got shape {list(mask.shape)}")
        return Scores({name: values[mask] for name, values in self.values.items()}, {})

    def against(self, other: "Scores", name: str, seed: int = 0, samples: int = 1000) -> Comparison:
        """How far this system is above another one by one metric, on the same users."""
        return paired(self[name], other[name], seed, samples)

    def as_dict(self, seed: int = 0) -> dict[str, Any]:
        """Plain numbers for JSON; a value that is no number becomes None."""
        metrics = {name: _plain(vars(interval)) for name, interval in self.intervals(seed).items()}
        return {"users": len(self), "metrics": metrics, "whole": _plain(self.whole)}


def score_slates(
    ranked: Tensor,
    relevant: Tensor,
    ks: Sequence[int] = (10, 20, 50),
    popularity: Tensor | None = None,
    n_users: int | None = None,
) -> Scores:
    """Every metric at every cut for rankings [U, K] against what came [U, R].

    With the `popularity` [n_items] of the items among the `n_users` users learned from, novelty, coverage and
    Gini are there too.
    """
    values = {f"{name}@{k}": metric(ranked, relevant, k) for name, metric in METRICS.items() for k in ks}
    if popularity is None:
        return Scores(values, {})
    if n_users is None:
        raise ConfigError("score_slates: popularity needs n_users, the number of users it was counted over")
    fresh = {f"novelty@{k}": novelty(ranked, popularity, n_users, k) for k in ks}
    shown = {f"coverage@{k}": coverage(ranked, len(popularity), k) for k in ks}
    uneven = {f"gini@{k}": gini(ranked, len(popularity), k) for k in ks}
    return Scores(values | fresh, shown | uneven)


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in values.items()}
