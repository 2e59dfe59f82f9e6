"""Shares with intervals over users: bootstrap of sums, exact binomial interval, McNemar's test."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from shortlist.errors import ConfigError
from shortlist.metrics.resampling import chunks, repeats

Floats = NDArray[np.float64]

MIN_USERS = 30  # no interval is given for fewer users
DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """A share with its 95 % interval; no interval with too few users."""

    mean: float | None
    low: float | None = None
    high: float | None = None

    @property
    def above(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low is not None and self.low > 0

    @property
    def below(self) -> bool:
        """Whether the whole interval lies below 0."""
        return self.high is not None and self.high < 0

    def best_of(self, count: int) -> "Estimate":
        """With a wider interval, as for the best of `count` estimates (Bonferroni, with normal quantiles)."""
        if self.mean is None or self.low is None or self.high is None:
            return self
        wider = float(special.ndtri(1 - 0.025 / max(count, 1)) / special.ndtri(0.975))
        return Estimate(self.mean, *(self.mean + wider * (end - self.mean) for end in (self.low, self.high)))


def resampled(
    per_user: NDArray[Any], seed: int, draws: int = DRAWS, kind: str = "multinomial"
) -> NDArray[np.float64]:
    """Bootstrap samples of the sums over users of `per_user` [U, M]: [draws, M].

    The resampling unit is a user. The same seed and number of users give the same samples, so sums of several systems
    on the same users are paired. "multinomial" samples U users with replacement; "poisson" repeats each user a
    Poisson(1) number of times.
    """
    if kind not in ("multinomial", "poisson") or draws < 1 or seed < 0:
        raise ConfigError(
            f"bootstrap: expected multinomial or poisson, draws >= 1 and seed >= 0, got {kind!r}, {draws} "
            f"and {seed}"
        )
    count = len(per_user)
    if not count:
        return np.zeros((draws, per_user.shape[1]))
    rng, values = np.random.default_rng([seed, 2]), per_user.astype(np.float64)
    return np.concatenate([_weights(rng, part, count, kind) @ values for part in chunks(draws, count)])


def shares(
    top: NDArray[Any], bottom: NDArray[Any], seed: int = 0, draws: int = DRAWS, min_users: int = MIN_USERS
) -> tuple[Estimate, ...]:
    """The sums of each column of `top` [U, M] over the sum of `bottom` [U], with 95 % percentile intervals.

    Below `min_users` users there is no interval; where the denominator is 0 there is no share.
    """
    count, whole = len(bottom), float(bottom.sum())
    if not whole:
        return tuple(Estimate(None) for _ in range(top.shape[1]))
    means = top.sum(axis=0) / whole
    if count < min_users:
        return tuple(Estimate(float(mean)) for mean in means)
    sums = resampled(np.concatenate([top, bottom[:, None]], axis=1), seed, draws)
    sums = sums[sums[:, -1] > 0]
    low, high = np.quantile(sums[:, :-1] / sums[:, -1:], [0.025, 0.975], axis=0)
    return tuple(Estimate(float(m), float(a), float(b)) for m, a, b in zip(means, low, high, strict=True))


def share(top: NDArray[Any], bottom: NDArray[Any], seed: int = 0, draws: int = DRAWS) -> Estimate:
    """The sum of `top` [U] over the sum of `bottom` [U], with its interval."""
    return shares(top[:, None], bottom, seed, draws)[0]


def exact_share(successes: int, trials: int, level: float = 0.95) -> Estimate:
    """A proportion of independent trials with the exact (Clopper-Pearson) interval."""
    if not 0 <= successes <= trials:
        raise ConfigError(f"exact interval: expected 0 to {trials} successes, got {successes}")
    if not trials:
        return Estimate(None)
    tail, missed = (1 - level) / 2, trials - successes
    low = float(special.betaincinv(successes, missed + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, missed, 1 - tail)) if missed else 1.0
    return Estimate(successes / trials, low, high)


def mcnemar(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Exact two-sided p-value of McNemar's test: a and b [U] say whether each of two systems was right."""
    if a.shape != b.shape:
        raise ConfigError(
            f"mcnemar: expected results of the same users, got {list(a.shape)} and {list(b.shape)}"
        )
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    # Under the null hypothesis both tails are equal.
    return min(1.0, 2 * float(special.bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def _weights(rng: np.random.Generator, draws: int, count: int, kind: str) -> Floats:
    """How often each user is in each bootstrap sample [draws, U]."""
    if kind == "poisson":
        return rng.poisson(1.0, (draws, count)).astype(np.float64)
    return repeats(rng, draws, count)
