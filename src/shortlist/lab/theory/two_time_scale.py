"""Bounds of the two-time-scale paper: a common start for users with few events, their own vector for the others.

A user has T events with P(T) = (T + 1)^-alpha / zeta(alpha, 1), T = 0, 1, ..., alpha > 1. Their own vector has the
squared error Q / (T + 1), the common start has V. The own vector is used where T >= t (rule "ge" of
`shortlist.data.activity`). zeta(a, b) is the Hurwitz function, sum over i >= 0 of (i + b)^-a.

Where the paper is in error, the corrected function has the plain name and the paper's ends in `_printed`.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import zeta

from shortlist.errors import ConfigError
from shortlist.metrics.moments import crossing

Floats = NDArray[np.float64]

TERMS = 2_000_000  # of the sum of `beta_eb`
LONGEST = 5_000_000  # thresholds of a curve or a search


def beta(t: int, alpha: float, q: float, v: float) -> float:
    """The expected squared error of the start at threshold t (theorem 2.1): E[Q / (T + 1); T >= t] + P(T < t) V."""
    _check(alpha, q, v, t)
    return q * float(zeta(alpha + 1, t + 1) / zeta(alpha, 1)) + inactive_share(t, alpha) * v


def beta_curve(last: int, alpha: float, q: float, v: float) -> Floats:
    """`beta` at the thresholds 0 .. last."""
    return v - saved_curve(last, alpha, q, v)


def saved_curve(last: int, alpha: float, q: float, v: float) -> Floats:
    """V - beta at the thresholds 0 .. last: what own vectors save against a common start for all users.

    It is exact to rounding also where it is so small against V that `beta` is V in double precision.
    """
    _check(alpha, q, v, last)
    _check_length(last)
    first = np.arange(1, last + 2, dtype=np.float64)
    return np.asarray((v * zeta(alpha, first) - q * zeta(alpha + 1, first)) / zeta(alpha, 1))


def t_opt(q: float, v: float) -> int:
    """The smallest threshold that minimises `beta`: ceil(Q / V) - 1; for an integer Q / V the next one is as good."""
    _check(2.0, q, v)
    found = crossing(q, v)
    assert found is not None
    return found


def t_opt_printed(q: float, v: float) -> int:
    """The paper's floor(Q / V) - 1 (eq. 7 and 15), one too small unless Q / V is an integer."""
    _check(2.0, q, v)
    return max(math.floor(q / v) - 1, 0)


def inactive_share(t: int, alpha: float) -> float:
    """P(T < t)."""
    _check(alpha, t=t)
    return 1 - float(zeta(alpha, t + 1) / zeta(alpha, 1))


def bound(t: int, alpha: float, q: float, v: float, b: float, n: int, gamma: float | None = None) -> float:
    """Bound on the excess risk over n online steps with step size gamma (None: the best) and gradients up to b."""
    _check_online(b, n)
    start = beta(t, alpha, q, v)
    if gamma is None:
        return b * math.sqrt(start / n)
    if not (gamma > 0 and math.isfinite(gamma)):
        raise ConfigError(f"two time scales: expected a finite step size gamma > 0, got {gamma}")
    return (start + gamma**2 * b**2 * n) / (2 * gamma * n)


def best_gamma(t: int, alpha: float, q: float, v: float, b: float, n: int) -> float:
    """The step size that minimises `bound`: sqrt(beta / n) / b."""
    _check_online(b, n)
    return math.sqrt(beta(t, alpha, q, v) / n) / b


def step_sizes(t: int, alpha: float, q: float, v: float, b: float, n: int) -> tuple[float, float]:
    """The best step sizes (of active users, of inactive users) at threshold t, each for its own group (App. A.2)."""
    _check(alpha, q, v, t)
    _check_online(b, n)
    active = q * _mean_inverse(t, alpha)
    return math.sqrt(active / n) / b, math.sqrt(v / n) / b


def bound_two_step(t: int, alpha: float, q: float, v: float, b: float, n: int) -> float:
    """`bound` with the best step size of each group; never above the one with a common step size."""
    _check(alpha, q, v, t)
    _check_online(b, n)
    own = float(_own_part(np.array([t + 1.0]), alpha, q)[0]) / float(zeta(alpha, 1))
    return b / math.sqrt(n) * (inactive_share(t, alpha) * math.sqrt(v) + own)


def best_two_step_threshold(alpha: float, q: float, v: float) -> int:
    """The threshold that minimises `bound_two_step`, beyond `t_opt` where the tail of T is heavy."""
    _check(alpha, q, v)
    # For large Q / V it is about Q / V times this factor; it grows without limit as alpha falls to 1.
    factor = (2 * alpha - 1) ** 2 / (4 * alpha * (alpha - 1))
    last = 2 * q / v * factor + 10
    _check_length(last)
    first = np.arange(1.0, math.ceil(last) + 2)
    return int((_own_part(first, alpha, q) - zeta(alpha, first) * math.sqrt(v)).argmin())


def bound_per_t(alpha: float, q: float, v: float, b: float, n: int) -> float:
    """The bound with the best step size of every T; then `t_opt` is the best threshold."""
    _check(alpha, q, v)
    _check_online(b, n)
    t = t_opt(q, v)
    active = math.sqrt(q) * float(zeta(alpha + 0.5, t + 1) / zeta(alpha, 1))
    return b / math.sqrt(n) * (inactive_share(t, alpha) * math.sqrt(v) + active)


def beta_eb(alpha: float, q: float, v: float, terms: int = TERMS) -> float:
    """`beta` of the empirical-Bayes mean of the common start and the own vector: E[V e / (V + e)], e = Q / (T + 1).

    The weights are inverse to the errors, which are taken as independent. The terms left out sum to less than
    Q zeta(alpha + 1, terms + 1) / zeta(alpha, 1).
    """
    _check(alpha, q, v)
    if not 1 <= terms <= 10 * TERMS:
        raise ConfigError(f"two time scales: expected 1 to {10 * TERMS} terms, got {terms}")
    length = np.arange(1, terms + 1, dtype=np.float64)  # T + 1
    return float((length**-alpha * (v * q / (v * length + q))).sum() / zeta(alpha, 1))


def gap(alpha: float, q: float, v: float) -> float:
    """beta(0) - beta(t_opt) (implication 1): sum over 1 <= s <= t_opt of (Q / s - V) s^-alpha / zeta(alpha, 1)."""
    _check(alpha, q, v)
    return gap_printed(alpha, q, v) / float(zeta(alpha, 1))


def gap_printed(alpha: float, q: float, v: float) -> float:
    """The paper's sum, which lacks the factor 1 / zeta(alpha, 1)."""
    _check(alpha, q, v)
    _check_length(t_opt(q, v))
    at = np.arange(1, t_opt(q, v) + 1, dtype=np.float64)
    return float(((q / at - v) * at**-alpha).sum())


def worst_case_q(b_x: float, c: float, b_phi: float) -> float:
    """Q of proposition A.1, (b_x / c + b_phi)^2, the same for every user.

    The paper's maximum with |phi*|^2 has no effect: |phi*| <= min(b_phi, b_x / c). So Q / V is at least 4.
    """
    for name, value in (("b_x", b_x), ("c", c), ("b_phi", b_phi)):
        _positive(name, value)
    return (b_x / c + b_phi) ** 2


@dataclass(frozen=True)
class StartErrors:
    """The same quantities for any law of T = 0 .. M and any errors e(T), by threshold t = 0 .. M + 1.

    The bounds hold for these errors, since the proof uses Q / (T + 1) only as a bound on e(T).
    """

    law: Floats  # [M + 1], probabilities
    errors: Floats  # [M + 1]
    v: float

    def __post_init__(self) -> None:
        if self.law.ndim != 1 or self.law.shape != self.errors.shape or abs(self.law.sum() - 1) > 1e-9:
            raise ConfigError(
                "two time scales: expected probabilities of T = 0 .. M that sum to 1 and one error per T, got "
                f"{list(self.law.shape)} with sum {self.law.sum():g}, and {list(self.errors.shape)}"
            )
        _positive("v", self.v)

    @property
    def beta(self) -> Floats:
        """Expected squared error of the start [M + 2]."""
        return self._active_error + (1 - self._active_share) * self.v

    def gammas(self, b: float, n: int) -> Floats:
        """The best common step size [M + 2]."""
        _check_online(b, n)
        return np.asarray(np.sqrt(self.beta / n) / b)

    def active_gammas(self, b: float, n: int) -> Floats:
        """The best step size of active users [M + 1], at the thresholds that leave some."""
        _check_online(b, n)
        return np.asarray(np.sqrt(self._active_error[:-1] / self._active_share[:-1] / n) / b)

    def bounds(self, b: float, n: int) -> Floats:
        """Bound on the excess risk with the best common step size [M + 2]."""
        return b**2 * self.gammas(b, n)

    def bounds_two_step(self, b: float, n: int) -> Floats:
        """Bound on the excess risk with the best step size of each group [M + 2]."""
        _check_online(b, n)
        own = np.sqrt(self._active_error * self._active_share)
        return np.asarray(b / math.sqrt(n) * ((1 - self._active_share) * math.sqrt(self.v) + own))

    @property
    def _active_error(self) -> Floats:
        """E[e(T); T >= t]."""
        return _tails(self.law * self.errors)

    @property
    def _active_share(self) -> Floats:
        """P(T >= t)."""
        return _tails(self.law)


def _tails(values: Floats) -> Floats:
    """Sums from each place to the end, then 0."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


def _own_part(first: Floats, alpha: float, q: float) -> Floats:
    """sqrt(Q zeta(alpha + 1, b) zeta(alpha, b)) at b = first, the part of active users in `bound_two_step`."""
    return np.asarray(np.sqrt(q * zeta(alpha + 1, first)) * np.sqrt(zeta(alpha, first)))


def _mean_inverse(t: int, alpha: float) -> float:
    """E[1 / (T + 1) | T >= t]."""
    active = float(zeta(alpha, t + 1))
    if active < 1e-290:
        raise ConfigError(
            f"two time scales: at alpha = {alpha} no user has T >= {t} events in double precision; expected a smaller "
            "threshold or alpha"
        )
    return float(zeta(alpha + 1, t + 1)) / active


def _check(alpha: float = 2.0, q: float = 1.0, v: float = 1.0, t: int = 0) -> None:
    if not (alpha > 1 and math.isfinite(alpha)):
        raise ConfigError(
            f"two time scales: expected a power law with a finite alpha > 1, got {alpha}; at alpha <= 1 the "
            "probabilities (T + 1)^-alpha have no finite sum"
        )
    _positive("q", q)
    _positive("v", v)
    _positive("Q / V", q / v)
    if not (t >= 0 and math.isfinite(t) and t == int(t)):
        raise ConfigError(f"two time scales: expected a threshold t of 0, 1, 2, ..., got {t}")


def _check_length(last: float) -> None:
    if not last <= LONGEST:
        raise ConfigError(
            f"two time scales: expected thresholds up to {LONGEST:,}, got {last:g}; choose a larger alpha or a smaller "
            "Q / V"
        )


def _check_online(b: float, n: int) -> None:
    _positive("b", b)
    if n < 1:
        raise ConfigError(f"two time scales: expected n >= 1 online steps, got {n}")


def _positive(name: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ConfigError(f"two time scales: expected a finite {name} > 0, got {value}")
