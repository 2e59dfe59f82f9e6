"""Welch's and the paired t-test for repeats of an experiment or for users, and both with Holm's correction."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from shortlist.errors import DataError
from shortlist.metrics.significance import holm, user_differences

LEVEL = 0.95


@dataclass(frozen=True)
class Summary:
    """A mean over repeats, as a table prints it."""

    mean: float
    sd: float  # of the sample, with n - 1
    count: int

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> "Summary":
        """The summary of at least two repeats."""
        if len(values) < 2:
            raise DataError(f"t-test: expected at least 2 repeats, got {len(values)}; run more")
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))


@dataclass(frozen=True)
class TTest:
    """a - b with its 95 % interval and a two-sided p-value."""

    difference: float
    low: float
    high: float
    error: float
    degrees: float
    p_value: float  # NaN where neither sample varies and both means are equal

    @classmethod
    def of(cls, difference: float, error: float, degrees: float) -> "TTest":
        """The test of a difference with its standard error and degrees of freedom."""
        if error == 0:
            return cls(difference, difference, difference, 0.0, degrees, 0.0 if difference else math.nan)
        half = float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * error
        p_value = 2 * float(stats.t.sf(abs(difference) / error, degrees))
        return cls(difference, difference - half, difference + half, error, degrees, p_value)


@dataclass(frozen=True)
class ColumnTest:
    """One column of a table: a against b by both tests, with Holm's p-values over all columns."""

    column: str
    welch: TTest
    paired: TTest
    welch_holm: float
    paired_holm: float


@dataclass(frozen=True)
class TTests:
    """a against b by both tests on the same users, with Holm's p-values over all pairs of a comparison."""

    paired: TTest
    welch: TTest  # as if the users of a and b were two independent samples
    paired_holm: float
    welch_holm: float


def welch(a: Summary, b: Summary) -> TTest:
    """Welch's t-test of two independent samples, from their means, deviations and sizes."""
    parts = [one.sd**2 / one.count for one in (a, b)]
    total = sum(parts)
    spread = sum(part**2 / (one.count - 1) for part, one in zip(parts, (a, b), strict=True))
    degrees = total**2 / spread if spread else float(a.count + b.count - 2)
    return TTest.of(a.mean - b.mean, math.sqrt(total), degrees)


def paired_t(a: Sequence[float], b: Sequence[float]) -> TTest:
    """The paired t-test: repeat number i of both systems shares the world and the seed."""
    if len(a) != len(b):
        raise DataError(
            f"paired t-test: expected the same repeats, got {len(a)} and {len(b)}; match the seeds"
        )
    differences = Summary.of([first - second for first, second in zip(a, b, strict=True)])
    return TTest.of(differences.mean, differences.sd / math.sqrt(len(a)), len(a) - 1)


def column_tests(
    a: Mapping[str, Sequence[float]], b: Mapping[str, Sequence[float]]
) -> tuple[ColumnTest, ...]:
    """Both tests for every column of a; each family of p-values is corrected over all columns."""
    independent = [welch(Summary.of(a[name]), Summary.of(b[name])) for name in a]
    paired = [paired_t(a[name], b[name]) for name in a]
    corrected = [holm([test.p_value for test in tests]) for tests in (independent, paired)]
    return tuple(map(ColumnTest, a, independent, paired, *corrected))


def user_t_tests(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[TTests, ...]:
    """Both tests of every pair of values per user [U]; each family of p-values is corrected over all pairs.

    A user without a value in either is left out of both. With fewer than two users the tests are NaN.
    """
    found = [_user_tests(a, b) for a, b in pairs]
    corrected = [holm([tests[at].p_value for tests in found]) for at in (0, 1)]
    return tuple(TTests(*tests, *adjusted) for tests, *adjusted in zip(found, *corrected, strict=True))


def _user_tests(a: Tensor, b: Tensor) -> tuple[TTest, TTest]:
    """The paired test and Welch's."""
    differences = user_differences(a, b)
    if len(differences) < 2:
        return (TTest(*[math.nan] * 6),) * 2
    both = ~(a.isnan() | b.isnan())
    own = Summary.of(differences)
    paired = TTest.of(own.mean, own.sd / math.sqrt(own.count), own.count - 1)
    return paired, welch(Summary.of(a[both].double().numpy()), Summary.of(b[both].double().numpy()))
