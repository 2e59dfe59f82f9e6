"""Theory of the two-time-scale paper: exact numbers, corrected and printed formulas, and simulated worlds."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from shortlist.errors import ConfigError
from shortlist.lab.experiments.two_time_scale.theory_world_claims import world_claims
from shortlist.lab.experiments.two_time_scale.theory_worlds import (
    ERROR,
    EXCESS,
    THRESHOLD,
    WORLDS,
    play_worlds,
    world_rows,
)
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.lab.theory.two_time_scale import (
    best_two_step_threshold,
    beta,
    beta_curve,
    beta_eb,
    bound_per_t,
    bound_two_step,
    gap,
    gap_printed,
    inactive_share,
    saved_curve,
    step_sizes,
    t_opt,
    t_opt_printed,
)
from shortlist.progress import Progress, silent

THEOREM, EQUATION, FIRST, SECOND, SPEC = (
    "004 theorem 2.1",
    "004 eq. 7",
    "004 implication 1",
    "004 implication 2",
    "two_time_scale 3.1",
)
TABLE = (
    (1.5, 10, 1),
    (2, 10, 1),
    (2, 2.5, 1),
    (2, 4.9, 1),
    (2.5, 7.3, 1),
    (3, 25, 4),
    (1.2, 100, 1),
    (2, 100, 0.7),
)  # alpha, Q, V
CURVES = ((1.5, 10, 1), (2, 4.9, 1), (2, 2.5, 1))
RATIOS = ((1.5, 10, 1), (2, 10, 1), (2, 4.9, 1), (6, 4.9, 1))
LAST = 25  # threshold of a drawn curve
NEAR_LEAST = 1.3  # of a drawn value, beta over its minimum
BETA, RATIO = "beta / its minimum", "step size of active users / of inactive users"
DRAWS, SEARCHED = 200, 3000
NUMERIC = 1e-12  # of a relative difference in double precision
USERS = {"quick": 200, "full": 4000}
NOTE = (
    "Errors are squared distances from phi*. A user is active where T >= threshold. Formulas use P(T) = (T + 1)^-alpha "
    "/ zeta(alpha, 1) over all T; simulated worlds use the same law restricted to T <= 400. 'Best' step sizes are the "
    "best of a grid on the simulated users, 'from errors' are those of the theorem with the measured errors e(T), "
    "'worst-case Q' those with (B_x / c + B_phi)^2 / (T + 1). The soft start is the mean of the common start and the "
    "user's own vector with weights inverse to their measured errors, and the common start without events."
)


@dataclass(frozen=True)
class Draw:
    """A random power law with errors Q / (T + 1) and V."""

    alpha: float
    q: float
    v: float

    @property
    def name(self) -> str:
        return f"alpha {self.alpha:g}, Q {self.q:g}, V {self.v:g}"


def two_time_scale_theory(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> Result:
    """Formulas, and worlds with a known truth; needs no data."""
    if profile not in USERS:
        raise ConfigError(f"2ts-theory: expected a profile quick or full, got {profile!r}")
    began = start()
    runs = play_worlds(USERS[profile], seeds, progress)
    rows = [*_table(), *_curves(), *_ratios(), *world_rows(runs)]
    draws = random_draws()
    claims = [
        *_threshold_claims(draws),
        *_gap_claims(draws),
        *_step_claims(draws),
        *_extension_claims(draws),
        *world_claims(runs),
    ]
    settings = {name: {**asdict(one), "users": USERS[profile]} for name, one in WORLDS.items()}
    drawings = {
        BETA: "threshold",
        ERROR: "offline events T",
        EXCESS: "log2(threshold + 1)",
        RATIO: "threshold",
        THRESHOLD: "events in each half",
    }
    return result(
        "2ts-theory", profile, seeds, began, rows, claims, settings=settings, note=NOTE, drawings=drawings
    )


def random_draws(count: int = DRAWS) -> list[Draw]:
    """Exponents uniform in (1.1, 6), Q / V log-uniform in [4, 500], V log-uniform in [0.01, 100]."""
    rng = np.random.default_rng(2021)
    alphas, ratios = rng.uniform(1.1, 6.0, count), np.exp(rng.uniform(np.log(4), np.log(500), count))
    variances = np.exp(rng.uniform(np.log(0.01), np.log(100), count))
    return [Draw(float(a), float(r * v), float(v)) for a, r, v in zip(alphas, ratios, variances, strict=True)]


def _table() -> Iterator[Row]:
    for one in TABLE:
        name = Draw(*one).name
        for metric, value in table_row(*one).items():
            yield row(name, metric, [value])


def table_row(alpha: float, q: float, v: float) -> dict[str, float]:
    """The exact numbers of one law; bounds are in units of B / sqrt(N)."""
    best, printed, two = t_opt(q, v), t_opt_printed(q, v), best_two_step_threshold(alpha, q, v)
    active, inactive = step_sizes(best, alpha, q, v, 1.0, 1)
    return {
        "beta(0)": beta(0, alpha, q, v),
        "beta(1)": beta(1, alpha, q, v),
        "best threshold": best,
        "best threshold as printed": printed,
        "beta(best)": beta(best, alpha, q, v),
        "beta(printed)": beta(printed, alpha, q, v),
        "inactive share": inactive_share(best, alpha),
        "bound": beta(best, alpha, q, v) ** 0.5,
        "bound, two step sizes": bound_two_step(best, alpha, q, v, 1.0, 1),
        "bound, two step sizes at their best threshold": bound_two_step(two, alpha, q, v, 1.0, 1),
        "best threshold of two step sizes": two,
        "bound, a step size per T": bound_per_t(alpha, q, v, 1.0, 1),
        "beta, soft start": beta_eb(alpha, q, v),
        "step ratio": active / inactive,
        "beta(0) - beta(best)": gap(alpha, q, v),
        "beta(0) - beta(best) as printed": gap_printed(alpha, q, v),
    }


def _curves() -> Iterator[Row]:
    for alpha, q, v in CURVES:
        name, values = f"Q {q:g}, V {v:g}, alpha {alpha:g}", beta_curve(LAST, alpha, q, v)
        values = values / values.min()
        drawn = [(at, float(one)) for at, one in enumerate(values) if one <= NEAR_LEAST]
        yield from (row(name, BETA, [one], float(at)) for at, one in drawn)
        for label, at in (("corrected threshold", t_opt(q, v)), ("printed threshold", t_opt_printed(q, v))):
            yield row(f"Q {q:g}, {label}", BETA, [float(values[at])], float(at))


def _ratios() -> Iterator[Row]:
    for alpha, q, v in RATIOS:
        for at in range(LAST + 1):
            yield row(f"Q {q:g}, V {v:g}, alpha {alpha:g}", RATIO, [_ratio(at, alpha, q, v)], float(at))


def _ratio(t: int, alpha: float, q: float, v: float) -> float:
    active, inactive = step_sizes(t, alpha, q, v, 1.0, 1)
    return active / inactive


def _threshold_claims(draws: Sequence[Draw]) -> Iterator[Claim]:
    """Both thresholds against all thresholds to 3,000."""
    missed, fails = [], 0
    for one in draws:
        saved = saved_curve(SEARCHED, one.alpha, one.q, one.v)
        best = saved[t_opt(one.q, one.v)]
        missed.append(float(1 - best / saved.max()))
        fails += bool(saved[t_opt_printed(one.q, one.v)] < best)
    note = (
        f"largest distance of V - beta(ceil(Q / V) - 1) from the maximum of V - beta over thresholds to {SEARCHED:,}, "
        f"as a share of it, on {len(draws)} draws"
    )
    yield claim("the corrected threshold minimises beta", SPEC, max(missed) <= NUMERIC, max(missed), note)
    note = f"draws of {len(draws)} on which beta(floor(Q / V) - 1) is above beta(ceil(Q / V) - 1)"
    yield claim("the printed threshold minimises beta", EQUATION, fails == 0, fails, note)


def _gap_claims(draws: Sequence[Draw]) -> Iterator[Claim]:
    """The sum of implication 1 with and without its norm."""
    for name, source, formula in (
        ("the gap is the normalised sum", SPEC, gap),
        ("the gap is the printed sum", FIRST, gap_printed),
    ):
        off = [abs(formula(one.alpha, one.q, one.v) / _gap(one) - 1) for one in draws]
        note = (
            f"largest relative distance from beta(0) - beta(best) on {len(draws)} draws; for {Draw(1.5, 10, 1).name} "
            f"the sum is {formula(1.5, 10, 1):.6f} and the gap {_gap(Draw(1.5, 10, 1)):.6f}"
        )
        yield claim(name, source, max(off) < 1e-9, max(off), note)
    grown = [gap(one.alpha, one.q, 0.9 * one.v) / gap(one.alpha, one.q, one.v) for one in draws]
    note = f"smallest ratio of the gap at 0.9 V to that at V on {len(draws)} draws"
    yield claim("a smaller variance gives a larger gap", FIRST, min(grown) > 1, min(grown), note)


def _gap(one: Draw) -> float:
    law = (one.alpha, one.q, one.v)
    return beta(0, *law) - beta(t_opt(one.q, one.v), *law)


def _step_claims(draws: Sequence[Draw]) -> Iterator[Claim]:
    """Whether active users have the smaller step size."""
    largest = {
        rule.__name__: [_ratio(rule(one.q, one.v), one.alpha, one.q, one.v) for one in draws]
        for rule in (t_opt, t_opt_printed)
    }
    note = f"largest ratio of step sizes on {len(draws)} draws, at the corrected threshold"
    ratios = largest["t_opt"]
    yield claim("active users have the smaller step size", SECOND, max(ratios) < 1, max(ratios), note)
    ratios, named = largest["t_opt_printed"], _ratio(t_opt_printed(4.9, 1), 6, 4.9, 1)
    note = (
        f"ratio for {Draw(6, 4.9, 1).name} at the printed threshold 3; {_ratio(4, 6, 4.9, 1):.6f} at 4; above 1 on "
        f"{sum(ratio >= 1 for ratio in ratios)} of {len(ratios)} random draws"
    )
    holds = max(*ratios, named) < 1
    yield claim(
        "active users have the smaller step size at the printed threshold", SECOND, holds, named, note
    )


def _extension_claims(draws: Sequence[Draw]) -> Iterator[Claim]:
    """Two step sizes, a step size per T, and the soft start."""
    two, each = [], []
    for one in draws:
        for t in (0, 1, t_opt(one.q, one.v), best_two_step_threshold(one.alpha, one.q, one.v)):
            law = (one.alpha, one.q, one.v)
            both = bound_two_step(t, *law, 1.0, 1)
            two.append(both / beta(t, *law) ** 0.5 - 1)
            each.append(bound_per_t(*law, 1.0, 1) / both - 1)
    for name, values in (
        ("two step sizes have no larger bound than one", two),
        ("a step size per T has no larger bound than two", each),
    ):
        note = f"largest relative difference of bounds on {len(draws)} draws at four thresholds"
        yield claim(name, SPEC, max(values) <= NUMERIC, max(values), note)
    ratios = [beta_eb(*one) / beta(t_opt(*one[1:]), *one) for one in TABLE]
    note = "largest ratio of its expected error to that of the best threshold, on the table of laws"
    yield claim(
        "the soft start has a smaller error than any threshold", SPEC, max(ratios) < 1, max(ratios), note
    )
