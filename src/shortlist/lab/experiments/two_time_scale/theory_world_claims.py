"""What should hold in the simulated worlds of the theory."""

from collections.abc import Iterator, Sequence

import numpy as np

from shortlist.lab.experiments.two_time_scale.theory_worlds import HALVES, Floats, Played, Runs
from shortlist.lab.result import Claim, claim
from shortlist.metrics.moments import MOST_DRIFT, q_drift

PAPER, SPEC = "004 theorem 2.1", "two_time_scale 3.3"
HALF = 50  # events in each half of the claims
NEAR = 0.3  # relative distance from the crossover
FAR = 10  # times the crossover that a worst-case threshold is called many times too large


def world_claims(runs: Runs) -> Iterator[Claim]:
    """What should hold in every world, on all seeds."""
    for name, played in runs.items():
        yield from _bound_claims(name, played)
        yield from _crossover_claims(name, played)
        yield from _risk_claims(name, played)
        yield from _soft_claims(name, played)


def _bound_claims(name: str, played: Sequence[Played]) -> Iterator[Claim]:
    shares = [float((one.run.scaled_errors / one.worst_q).max()) for one in played]
    note = f"largest e(T) (T + 1) / Q over T <= {len(played[0].run.errors) - 1} and {len(played)} seeds"
    yield claim(
        f"{name}: the error is at most Q / (T + 1)",
        "004 proposition A.1",
        max(shares) <= 1,
        max(shares),
        note,
    )
    every = np.concatenate([one.shares_of_bound() for one in played])
    note = (
        f"largest excess risk / bound over thresholds, one and two step sizes, worst-case Q and measured errors; "
        f"bounds are {1 / every.max():.1f} to {1 / every.min():.1f} times the excess risk"
    )
    holds = bool((every <= 1).all())
    yield claim(f"{name}: the excess risk is within its bounds", PAPER, holds, float(every.max()), note)
    least = min(one.worst_q / one.run.variance for one in played)
    note = "smallest worst-case Q / V: the threshold of the theorem is never below 3"
    yield claim(f"{name}: worst-case Q / V is at least 4", "two_time_scale 3.1", least >= 4, least, note)


def _crossover_claims(name: str, played: Sequence[Played]) -> Iterator[Claim]:
    crossovers = [one.run.crossover for one in played]
    at = [one for one in crossovers if one]
    reached = len(at) == len(played)
    own = ", ".join(map(str, crossovers))
    worst = [one.worst_threshold / cross for one, cross in zip(played, at, strict=False)]
    least = min(worst, default=0.0)
    note = (
        f"smallest ratio of ceil(Q / V) - 1 with the worst-case Q to the crossover of e(T) and V; crossovers {own}, "
        f"thresholds {', '.join(str(one.worst_threshold) for one in played)}; many: {FAR} or more"
    )
    yield claim(
        f"{name}: the worst-case threshold is many times too large",
        SPEC,
        reached and least >= FAR,
        least,
        note,
    )
    fitted = [one.run.fitted_q / one.run.variance for one in played]
    yield _near(f"{name}: fitted Q / V predicts the crossover", fitted, at, reached, own)
    half = [one.halves[HALVES.index(HALF)] for one in played]
    ratios = [one.q / one.v if one.v > 0 else 0.0 for one in half]
    reached = reached and all(one.v > 0 for one in half)
    yield _near(f"{name}: split-half Q / V predicts the crossover", ratios, at, reached, own)
    drifts = [q_drift(one.halves) for one in played]
    sizes = ", ".join(map(str, HALVES))
    note = f"largest ratio of split-half Q between halves of {sizes} events; at most {MOST_DRIFT:g}"
    holds = max(drifts) <= MOST_DRIFT
    yield claim(f"{name}: split-half Q is constant", "two_time_scale 4.1", holds, max(drifts), note)
    off = max(abs(one.v / other.run.variance - 1) for one, other in zip(half, played, strict=True))
    note = f"largest relative distance of the split-half V from V with halves of {HALF} events; at most 5 %"
    yield claim(f"{name}: split-half V is that of the users", "two_time_scale 4.1", off <= 0.05, off, note)


def _near(name: str, ratios: Sequence[float], at: Sequence[int], reached: bool, own: str) -> Claim:
    off = max((abs(ratio / one - 1) for ratio, one in zip(ratios, at, strict=False)), default=0.0)
    note = (
        f"largest relative distance, at most {NEAR:.0%}; Q / V {', '.join(f'{one:.1f}' for one in ratios)}, "
        f"crossovers {own}"
    )
    return claim(name, "two_time_scale 7.3 E1", reached and off <= NEAR, off, note)


def _risk_claims(name: str, played: Sequence[Played]) -> Iterator[Claim]:
    ratios = [float(one.run.errors[1] / one.run.errors[0]) for one in played]
    note = "smallest e(1) / e(0)"
    yield claim(f"{name}: one offline step is worse than none", SPEC, min(ratios) > 1, min(ratios), note)
    for steps, curves in (
        ("steps from errors", [one.fitted_one for one in played]),
        ("best steps", [one.best_one for one in played]),
    ):
        inside = [_inside(curve) for curve in curves]
        mean = np.mean(curves, axis=0)
        at = int(mean.argmin())
        note = (
            f"best threshold of the mean over seeds; excess risk {mean[0]:.4f} at 0, {mean[at]:.4f} at {at}, "
            f"{mean[-1]:.4f} at {len(mean) - 1}; best thresholds {', '.join(str(curve.argmin()) for curve in curves)}"
        )
        yield claim(f"{name}: a threshold inside is best, {steps}", SPEC, all(inside), at, note)
    best = [one.run.best_excess_two(one.run.crossover or 0)[1:] for one in played]
    ratio = max(active / inactive for active, inactive in best)
    note = "largest ratio of best step sizes at the crossover; neighbours on the grid of step sizes differ by 26 %"
    reached = all(one.run.crossover for one in played)
    yield claim(
        f"{name}: active users have the smaller best step",
        "004 implication 2",
        reached and ratio < 1,
        ratio,
        note,
    )


def _inside(curve: Floats) -> bool:
    at = int(curve.argmin())
    return 0 < at < len(curve) - 1 and curve[at] < min(curve[0], curve[-1])


def _soft_claims(name: str, played: Sequence[Played]) -> Iterator[Claim]:
    errors = [one.run.soft_error / float(one.measured.beta.min()) for one in played]
    risks = {
        "one best step": [one.run.best_soft_excess()[0] / float(one.best_one.min()) for one in played],
        "two best steps": [one.run.best_soft_excess()[0] / float(one.best_two.min()) for one in played],
    }
    note = "largest ratio of the expected squared error of the soft start to that of the best threshold"
    yield claim(f"{name}: the soft start has the smaller error", SPEC, max(errors) < 1, max(errors), note)
    for steps, ratios in risks.items():
        note = (
            f"largest ratio of the excess risk with one best step to that of the best threshold with {steps}"
        )
        yield claim(
            f"{name}: the soft start has the smaller excess risk, {steps}",
            SPEC,
            max(ratios) < 1,
            max(ratios),
            note,
        )
