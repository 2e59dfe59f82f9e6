"""Simulated worlds of the theory: bounds, crossover, excess risk by threshold, split-half moments."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shortlist.lab.result import Row, row
from shortlist.lab.theory.two_time_scale import StartErrors, t_opt, worst_case_q
from shortlist.metrics.moments import Moments
from shortlist.progress import Progress, silent
from shortlist.simulate.online import (
    OnlineRun,
    OnlineSettings,
    make_online_world,
    simulate_online,
    split_half,
)
from shortlist.simulate.online.world import B_X

WORLDS = {
    f"c {c:g}, s {s:g}, alpha {alpha:g}": OnlineSettings(regulariser=c, spread=s, alpha=alpha)
    for c, s, alpha in ((0.5, 1.0, 1.5), (0.1, 1.0, 1.5), (0.1, 3.0, 1.2))
}
HALVES = (10, 20, 50, 100)  # events in each
THRESHOLDS = (0, 1, 2, 3, 5, 8, 11, 15, 20, 30, 41, 60, 80, 100, 150, 200, 300, 400)
DRAWN = (*range(21), *range(24, 101, 4))  # T of a drawn error curve
ERROR, EXCESS, THRESHOLD = "log10 squared error", "log10 excess risk", "threshold"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Played:
    """One world and seed, with the bounds for the worst case and for the measured errors."""

    run: OnlineRun
    halves: tuple[Moments, ...]

    @cached_property
    def worst_q(self) -> float:
        settings = self.run.settings
        return worst_case_q(B_X, settings.regulariser, settings.radius)

    @property
    def worst_threshold(self) -> int:
        return t_opt(self.worst_q, self.run.variance)

    @cached_property
    def worst(self) -> StartErrors:
        law = self.run.settings.law
        return StartErrors(law, self.worst_q / np.arange(1, len(law) + 1), self.run.variance)

    @cached_property
    def measured(self) -> StartErrors:
        return StartErrors(self.run.settings.law, self.run.errors, self.run.variance)

    @property
    def soft_step(self) -> float:
        """The theorem's step size for the error of the soft start."""
        b, n = self._online
        return float(np.sqrt(self.run.soft_error / n) / b)

    def one_step(self, errors: StartErrors) -> Floats:
        """Excess risk with the theorem's step size, at the thresholds 0 .. most."""
        gammas = errors.gammas(*self._online)[:-1]
        return np.array([self.run.excess(t, float(gamma)) for t, gamma in enumerate(gammas)])

    def two_steps(self, errors: StartErrors) -> Floats:
        """The same with a step size for each group."""
        b, n = self._online
        inactive = float(np.sqrt(errors.v / n) / b)
        active = errors.active_gammas(b, n)
        return np.array([self.run.excess_two(t, float(one), inactive) for t, one in enumerate(active)])

    @cached_property
    def best_one(self) -> Floats:
        return np.array([self.run.best_excess(t)[0] for t in range(self.run.settings.most + 1)])

    @cached_property
    def best_two(self) -> Floats:
        return np.array([self.run.best_excess_two(t)[0] for t in range(self.run.settings.most + 1)])

    @cached_property
    def fitted_one(self) -> Floats:
        return self.one_step(self.measured)

    def shares_of_bound(self) -> Floats:
        """Excess risk over its bound, with one and two step sizes, for the worst case and for measured errors."""
        found = []
        for errors in (self.worst, self.measured):
            found.append(self.one_step(errors) / errors.bounds(*self._online)[:-1])
            found.append(self.two_steps(errors) / errors.bounds_two_step(*self._online)[:-1])
        return np.concatenate(found)

    @property
    def _online(self) -> tuple[float, int]:
        return self.run.settings.gradient_bound, self.run.settings.rounds


Runs = Mapping[str, Sequence[Played]]


def play_worlds(users: int, seeds: Sequence[int], progress: Progress = silent) -> Runs:
    """Every world with every seed."""
    runs: dict[str, list[Played]] = {name: [] for name in WORLDS}
    for done, (name, seed) in enumerate((name, seed) for name in WORLDS for seed in seeds):
        progress("worlds", done, len(WORLDS) * len(seeds))
        runs[name].append(play(replace(WORLDS[name], users=users), seed))
    progress("worlds", len(WORLDS) * len(seeds), len(WORLDS) * len(seeds))
    return runs


def play(settings: OnlineSettings, seed: int) -> Played:
    """One world and seed."""
    world = make_online_world(settings, seed)
    return Played(simulate_online(settings, seed), tuple(split_half(world, t, seed) for t in HALVES))


def world_rows(runs: Runs) -> Iterator[Row]:
    """Numbers of each world, and its curves by T and by threshold."""
    for name, played in runs.items():
        for metric, values in _numbers(played).items():
            yield row(name, metric, values)
        yield from _error_rows(name, played)
        yield from _excess_rows(name, played)
        yield from _half_rows(name, played)


def _numbers(played: Sequence[Played]) -> dict[str, list[float]]:
    every = [_numbers_of(one) for one in played]
    # A crossover that is not reached has no number.
    names = [name for name in every[0] if all(name in one for one in every)]
    return {name: [one[name] for one in every] for name in names}


def _numbers_of(one: Played) -> dict[str, float]:
    run = one.run
    numbers = {
        "worst-case Q": one.worst_q,
        "V": run.variance,
        "worst-case threshold": float(one.worst_threshold),
        **{f"e({t})": float(run.errors[t]) for t in (0, 1, 10, 100)},
        "largest e(T) (T + 1) / worst-case Q": float(run.scaled_errors.max() / one.worst_q),
        "largest norm of phi* / (B_x / c)": run.largest_norm / run.settings.radius,
        "fitted Q": run.fitted_q,
        "fitted Q / V": run.fitted_q / run.variance,
        "best threshold of excess risk, steps from errors": float(one.fitted_one.argmin()),
        "best threshold of excess risk, best steps": float(one.best_one.argmin()),
        "expected error, best threshold": float(one.measured.beta.min()),
        "expected error, soft start": run.soft_error,
        "largest excess risk / bound": float(one.shares_of_bound().max()),
        "smallest excess risk / bound": float(one.shares_of_bound().min()),
    }
    return numbers | ({} if run.crossover is None else _at_crossover(one, run.crossover))


def _at_crossover(one: Played, at: int) -> dict[str, float]:
    _, active, inactive = one.run.best_excess_two(at)
    return {
        "crossover": float(at),
        "worst-case threshold / crossover": one.worst_threshold / max(at, 1),
        "best step of active users at the crossover": active,
        "best step of inactive users at the crossover": inactive,
    }


def _error_rows(name: str, played: Sequence[Played]) -> Iterator[Row]:
    for at in DRAWN:
        values = {
            "own vector e(T)": [one.run.errors[at] for one in played],
            "fitted Q / (T + 1)": [one.run.fitted_q / (at + 1) for one in played],
            "worst-case Q / (T + 1)": [one.worst_q / (at + 1) for one in played],
        }
        if at in (DRAWN[0], DRAWN[-1]):
            values["common start V"] = [one.run.variance for one in played]
        for curve, own in values.items():
            yield row(f"{curve} on {name}", ERROR, np.log10(own).tolist(), float(at))


def _excess_rows(name: str, played: Sequence[Played]) -> Iterator[Row]:
    curves = {
        "one step, from errors": [one.fitted_one for one in played],
        "one step, worst-case Q": [one.one_step(one.worst) for one in played],
        "one step, best": [one.best_one for one in played],
        "two steps, from errors": [one.two_steps(one.measured) for one in played],
        "two steps, best": [one.best_two for one in played],
        "soft start, from errors": [_flat(one.run.soft_excess(one.soft_step)) for one in played],
        "soft start, best": [_flat(one.run.best_soft_excess()[0]) for one in played],
    }
    for curve, values in curves.items():
        for at in THRESHOLDS:
            drawn = [float(np.log10(own[at])) for own in values]
            yield row(f"{curve} on {name}", EXCESS, drawn, float(np.log2(at + 1)), knob=float(at))


def _flat(value: float) -> Floats:
    """A value that does not depend on the threshold."""
    return np.full(THRESHOLDS[-1] + 1, value)


def _half_rows(name: str, played: Sequence[Played]) -> Iterator[Row]:
    for place, t in enumerate(HALVES):
        own = [one.halves[place] for one in played]
        values: dict[str, list[float]] = {
            "split-half Q": [one.q for one in own],
            "split-half V": [one.v for one in own],
            "e(t) (t + 1)": [float(one.run.scaled_errors[t]) for one in played],
        }
        for metric, numbers in values.items():
            yield row(name, metric, numbers, float(t))
        thresholds = [one.threshold for one in own]
        if None not in thresholds:
            found = [float(one) for one in thresholds if one is not None]
            yield row(f"halves on {name}", THRESHOLD, found, float(t))
    reached = [float(one.run.crossover) for one in played if one.run.crossover is not None]
    if len(reached) == len(played):
        yield from (row(f"crossover on {name}", THRESHOLD, reached, float(t)) for t in HALVES)
