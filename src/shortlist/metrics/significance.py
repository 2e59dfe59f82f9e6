"""Bootstrap intervals over users, paired tests of two systems, and Holm's correction for many tests."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError

CELLS = 1 << 22  # random numbers held in memory at a time
NOISE = 1e-9  # a difference below this share of the values it was computed from counts as 0

Floats = NDArray[np.float64]


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
    """The same as `bootstrap` of every column [U]; columns with values for the same users share their samples."""
    known = [one[~np.isnan(one)] for one in map(_numbers, columns)]
    bounds: dict[int, tuple[float, float]] = {}
    for length in dict.fromkeys(map(len, known)):
        same = [at for at, values in enumerate(known) if len(values) == length]
        found = _intervals([known[at] for at in same], seed, samples, level)
        bounds |= dict(zip(same, found, strict=True))
    return [Interval(_mean(values), *bounds[at]) for at, values in enumerate(known)]


def paired(a: Tensor, b: Tensor, seed: int, samples: int = 1000, level: float = 0.95) -> PairedTest:
    """Compare two systems on the same users [U]; a user without a value in either is left out of both.

    The interval is a bootstrap over users. The p-value is the share of random sign flips of the users'
    differences whose mean is at least as far from 0 as the observed mean. The observed one counts, so it is never below
    1 / (samples + 1).
    """
    if a.shape != b.shape:
        raise DataError(f"paired: expected values of the same users, got {list(a.shape)} and {list(b.shape)}")
    differences = _differences(_numbers(a), _numbers(b))
    low, high = _interval(differences, seed, samples, level)
    return PairedTest(
        _mean(differences),
        low,
        high,
        _sign_flips(differences, seed, samples),
        _effect(differences),
        int((differences > 0).sum()),
        int((differences == 0).sum()),
        int((differences < 0).sum()),
    )


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


def _differences(a: Floats, b: Floats) -> Floats:
    """a - b where both are numbers; differences within rounding error are 0."""
    differences = a - b
    noise = abs(differences) <= NOISE * np.maximum(abs(a), abs(b))
    return np.where(noise, 0.0, differences)[~np.isnan(differences)]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _interval(values: Floats, seed: int, samples: int, level: float) -> tuple[float, float]:
    return _intervals([values], seed, samples, level)[0]


def _intervals(columns: Sequence[Floats], seed: int, samples: int, level: float) -> list[tuple[float, float]]:
    """Percentile intervals of the means of columns of one length; every column sees the same samples."""
    if samples < 1 or not 0 < level < 1 or seed < 0:
        got = f"{samples}, {level} and seed {seed}"
        raise ConfigError(
            f"significance: expected samples from 1, 0 < level < 1 and a seed from 0, got {got}"
        )
    users = len(columns[0])
    if users == 0:
        return [(float("nan"), float("nan"))] * len(columns)
    rng, means = np.random.default_rng([seed, 0]), list[Floats]()
    for size in _chunks(samples, users):
        rows = rng.integers(0, users, (size, users))
        means.append(np.stack([values[rows].mean(axis=1) for values in columns]))
    bounds = np.quantile(np.concatenate(means, axis=1), [(1 - level) / 2, (1 + level) / 2], axis=1)
    return [(float(low), float(high)) for low, high in bounds.T]


def _sign_flips(differences: Floats, seed: int, samples: int) -> float:
    if len(differences) == 0:
        return float("nan")
    observed = abs(differences.sum()) * (1 - 1e-12)  # equal sums may differ in their last bits
    rng = np.random.default_rng([seed, 1])
    shapes = ((size, len(differences)) for size in _chunks(samples, len(differences)))
    far = sum(
        int((abs((rng.integers(0, 2, shape) * 2 - 1) @ differences) >= observed).sum()) for shape in shapes
    )
    return (far + 1) / (samples + 1)


def _effect(differences: Floats) -> float:
    """Cohen's d_z; 0 where all differences are 0, NaN where it is not defined."""
    if len(differences) and not differences.any():
        return 0.0
    if len(differences) < 2 or np.ptp(differences) == 0:
        return float("nan")
    return float(differences.mean() / differences.std(ddof=1))


def _chunks(samples: int, users: int) -> list[int]:
    """Sizes of chunks of samples that fit in bounded memory for any number of users."""
    size = max(1, CELLS // users)
    return [min(size, samples - start) for start in range(0, samples, size)]
