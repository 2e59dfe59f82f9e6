"""Bootstrap intervals over users, paired tests of two systems, and Holm's correction for many tests."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.metrics.resampling import flipped_sums, resampled_means

NOISE = 1e-9  # a difference below this share of the values it was computed from counts as 0

Floats = NDArray[np.float64]
R = TypeVar("R")


@dataclass(frozen=True)
class Interval:
    """A mean over users with its bootstrap interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class PairedTest:
    """System a against system b on the same users: differences are a - b."""

    difference: float  # mean of a - b
    low: float
    high: float
    p_value: float  # two-sided randomisation test
    effect_size: float  # Cohen's d_z: mean over standard deviation of a - b
    wins: int
    ties: int
    losses: int

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above 0, by more than rounding errors."""
        return self.low > self._noise

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below 0, by more than rounding errors."""
        return self.high < -self._noise

    @property
    def _noise(self) -> float:
        return NOISE * max(abs(self.low), abs(self.high))


def bootstrap(values: Tensor, seed: int, samples: int = 1000, level: float = 0.95) -> Interval:
    """The mean over users [U] with its percentile bootstrap interval; users with NaN are left out.

    All values are NaN when no user is left.
    """
    return bootstraps([values], seed, samples, level)[0]


def bootstraps(
    columns: Sequence[Tensor], seed: int, samples: int = 1000, level: float = 0.95
) -> list[Interval]:
    """The same as `bootstrap` of every column [U]; columns with values for as many users share their samples."""
    known = [one[~np.isnan(one)] for one in map(_numbers, columns)]
    bounds = _intervals(known, seed, samples, level)
    return [Interval(_mean(values), *ends) for values, ends in zip(known, bounds, strict=True)]


def paired(a: Tensor, b: Tensor, seed: int, samples: int = 1000, level: float = 0.95) -> PairedTest:
    """Compare two systems on the same users [U]; a user without a value in either is left out of both.

    The interval is a bootstrap over users. The p-value is the share of random sign flips of the users'
    differences whose mean is at least as far from 0 as the observed mean. The observed one counts, so it is never below
    1 / (samples + 1).
    """
    return paired_tests([(a, b)], seed, samples, level)[0]


def paired_tests(
    pairs: Sequence[tuple[Tensor, Tensor]], seed: int, samples: int = 1000, level: float = 0.95
) -> list[PairedTest]:
    """The same as `paired` of every pair; pairs with differences for as many users share samples and sign flips."""
    differences = [user_differences(a, b) for a, b in pairs]
    bounds = _intervals(differences, seed, samples, level)
    p_values = _by_length(differences, lambda values: _p_values(values, seed, samples), math.nan)
    return [
        PairedTest(
            _mean(own),
            low,
            high,
            p_value,
            _effect(own),
            int((own > 0).sum()),
            int((own == 0).sum()),
            int((own < 0).sum()),
        )
        for own, (low, high), p_value in zip(differences, bounds, p_values, strict=True)
    ]


def p_text(p_value: float) -> str:
    """A p-value with three digits; never 0, which no randomisation test can find."""
    if math.isnan(p_value):
        return "–"
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values in the same order (Holm, 1979): they control the family-wise error rate.

    The i-th smallest of m is multiplied by m - i + 1, and made at least as large as the one before. NaN is not a test:
    it stays NaN and is not counted.
    """
    order = sorted((at for at, p in enumerate(p_values) if not math.isnan(p)), key=lambda at: p_values[at])
    adjusted, least = list(p_values), 0.0
    for place, at in enumerate(order):
        least = max(least, min(1.0, p_values[at] * (len(order) - place)))
        adjusted[at] = least
    return adjusted


def _numbers(values: Tensor) -> Floats:
    if values.ndim != 1:
        raise DataError(f"significance: expected one value per user [U], got shape {list(values.shape)}")
    return np.asarray(values.detach().cpu().double().numpy(), np.float64)


def user_differences(first: Tensor, second: Tensor) -> Floats:
    """a - b of the users who have both values; differences within rounding error are 0."""
    if first.shape != second.shape:
        raise DataError(
            f"paired: expected values of the same users, got {list(first.shape)} and {list(second.shape)}"
        )
    a, b = _numbers(first), _numbers(second)
    differences = a - b
    noise = abs(differences) <= NOISE * np.maximum(abs(a), abs(b))
    return np.where(noise, 0.0, differences)[~np.isnan(differences)]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _intervals(columns: Sequence[Floats], seed: int, samples: int, level: float) -> list[tuple[float, float]]:
    """Percentile intervals of the means of columns."""
    if samples < 1 or not 0 < level < 1 or seed < 0:
        got = f"{samples}, {level} and seed {seed}"
        raise ConfigError(
            f"significance: expected samples from 1, 0 < level < 1 and a seed from 0, got {got}"
        )
    ends = [(1 - level) / 2, (1 + level) / 2]

    def bounds(values: Floats) -> list[tuple[float, float]]:
        found = np.quantile(resampled_means(values, seed, samples), ends, axis=0)
        return [(float(low), float(high)) for low, high in found.T]

    return _by_length(columns, bounds, (math.nan, math.nan))


def _by_length(columns: Sequence[Floats], results: Callable[[Floats], list[R]], empty: R) -> list[R]:
    """One result per column: columns of one length are computed together, as values [U, M]."""
    found = [empty] * len(columns)
    for length in {len(one) for one in columns} - {0}:
        same = [at for at, one in enumerate(columns) if len(one) == length]
        for at, own in zip(same, results(np.stack([columns[at] for at in same], axis=1)), strict=True):
            found[at] = own
    return found


def _p_values(differences: Floats, seed: int, samples: int) -> list[float]:
    """Two-sided p-values of the columns of differences [U, M]."""
    observed = abs(differences.sum(axis=0)) * (1 - NOISE)  # equal sums may differ in their last bits
    far = (abs(flipped_sums(differences, seed, samples)) >= observed).sum(axis=0)
    return [(int(count) + 1) / (samples + 1) for count in far]


def _effect(differences: Floats) -> float:
    """Cohen's d_z; 0 where all differences are 0, NaN where it is not defined."""
    if len(differences) and not differences.any():
        return 0.0
    if len(differences) < 2 or np.ptp(differences) == 0:
        return float("nan")
    return float(differences.mean() / differences.std(ddof=1))
