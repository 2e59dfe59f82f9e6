"""How sure a mean or a difference is: bootstrap over users, and a randomisation test for pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError

CELLS = 1 << 22  # numbers drawn at a time
NOISE = 1e-9  # what is smaller than this share of the values it was computed from is 0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean and where it would lie with other users of the same kind."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """What a is above b, user by user."""

    difference: float  # mean of a - b
    low: float
    high: float
    p_value: float  # of the difference, were a and b exchangeable; two-sided
    effect_size: float  # Cohen's d_z: mean over standard deviation of a - b
    wins: int
    ties: int
    losses: int

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above 0, by more than sums of floating-point numbers err."""
        return self.low > self._noise

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below 0, by more than sums of floating-point numbers err."""
        return self.high < -self._noise

    @property
    def _noise(self) -> float:
        return NOISE * max(abs(self.low), abs(self.high))


def bootstrap(values: Tensor, seed: int, samples: int = 1000, level: float = 0.95) -> Interval:
    """The mean over users [U] and its percentile bootstrap interval; NaN users are left out.

    All NaN without any user left: there is nothing to be sure of.
    """
    known = _numbers(values)
    known = known[~np.isnan(known)]
    return Interval(_mean(known), *_interval(known, seed, samples, level))


def paired(a: Tensor, b: Tensor, seed: int, samples: int = 1000, level: float = 0.95) -> Comparison:
    """Compare two systems on the same users [U]; a user without a value in either is left out of both.

    The interval is a bootstrap over users. The p-value is the share of random flips of the users' signs whose
    mean lies at least as far from 0 as the one seen, which counts itself: never below 1 / (samples + 1).
    """
    if a.shape != b.shape:
        raise DataError(f"paired: expected values of the same users, got {list(a.shape)} and {list(b.shape)}")
    differences = _apart(_numbers(a), _numbers(b))
    low, high = _interval(differences, seed, samples, level)
    return Comparison(
        _mean(differences),
        low,
        high,
        _sign_flips(differences, seed, samples),
        _effect(differences),
        int((differences > 0).sum()),
        int((differences == 0).sum()),
        int((differences < 0).sum()),
    )


def _numbers(values: Tensor) -> Floats:
    if values.ndim != 1:
        raise DataError(f"significance: expected one value per user [U], got shape {list(values.shape)}")
    return np.asarray(values.detach().cpu().double().numpy(), np.float64)


def _apart(a: Floats, b: Floats) -> Floats:
    """What a is above b where both are known; equal values may differ in their last bits."""
    differences = a - b
    noise = abs(differences) <= NOISE * np.maximum(abs(a), abs(b))
    return np.where(noise, 0.0, differences)[~np.isnan(differences)]


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _interval(values: Floats, seed: int, samples: int, level: float) -> tuple[float, float]:
    if samples < 1 or not 0 < level < 1 or seed < 0:
        got = f"{samples}, {level} and seed {seed}"
        raise ConfigError(
            f"significance: expected samples from 1, 0 < level < 1 and a seed from 0, got {got}"
        )
    if len(values) == 0:
        return float("nan"), float("nan")
    chunks = _chunks(samples, len(values))
    rng = np.random.default_rng([seed, 0])
    means = [values[rng.integers(0, len(values), (size, len(values)))].mean(axis=1) for size in chunks]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _sign_flips(differences: Floats, seed: int, samples: int) -> float:
    if len(differences) == 0:
        return float("nan")
    seen = abs(differences.sum()) * (1 - 1e-12)  # equal sums may differ in their last bits
    rng = np.random.default_rng([seed, 1])
    shapes = ((size, len(differences)) for size in _chunks(samples, len(differences)))
    far = sum(int((abs((rng.integers(0, 2, shape) * 2 - 1) @ differences) >= seen).sum()) for shape in shapes)
    return (far + 1) / (samples + 1)


def _effect(differences: Floats) -> float:
    """Mean over standard deviation; 0 where nothing differs, NaN where it is not defined."""
    if len(differences) and not differences.any():
        return 0.0
    if len(differences) < 2 or np.ptp(differences) == 0:
        return float("nan")
    return float(differences.mean() / differences.std(ddof=1))


def _chunks(samples: int, users: int) -> list[int]:
    """Samples in portions that need bounded memory, whatever the number of users."""
    size = max(1, CELLS // users)
    return [min(size, samples - start) for start in range(0, samples, size)]
