"""The whole setting: offline errors by number of events, then excess risk by threshold and step size."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.simulate.online.excess import excess_surface
from shortlist.simulate.online.offline import Offline, offline_descent
from shortlist.simulate.online.world import Floats, OnlineSettings, OnlineWorld, make_online_world

FIT_FROM = 20  # events from which the error follows 1 / (T + 1)
STEPS = np.geomspace(0.001, 3.0, 36)  # online step sizes; their neighbours differ by a quarter
MOST_LENGTHS = 48


@dataclass(frozen=True)
class OnlineRun:
    """Offline errors and online excess risk of one seed.

    Excess risk is known at `lengths` and `steps`; between them it is interpolated in log(T + 1) and log(step).
    """

    settings: OnlineSettings
    variance: float  # Var_m
    largest_norm: float  # of phi*
    errors: Floats  # [T + 1], e(T) = mean |phi(z_T) - phi*|^2
    shrunk_errors: Floats  # [L], of the empirical-Bayes start
    lengths: NDArray[np.int64]  # [L]
    steps: Floats  # [G]
    own: Floats  # [L, G], excess risk from phi(z_T)
    shrunk: Floats  # [L, G], from the empirical-Bayes mean of m and phi(z_T)
    common: Floats  # [G], from m

    @property
    def scaled_errors(self) -> Floats:
        """e(T) (T + 1), which would be constant under the 1 / (T + 1) law [T + 1]."""
        return np.asarray(self.errors * np.arange(1, len(self.errors) + 1))

    @property
    def fitted_q(self) -> float:
        """The mean of e(T) (T + 1) over T >= 20."""
        return float(self.scaled_errors[FIT_FROM:].mean())

    @property
    def crossover(self) -> int | None:
        """The smallest T from which on e(T) <= V; None if that is not reached."""
        above = np.flatnonzero(self.errors > self.variance)
        first = int(above[-1]) + 1 if len(above) else 0
        return first if first < len(self.errors) else None

    def excess(self, threshold: int, step: float) -> float:
        """Excess risk with one step size for all users."""
        return self.excess_two(threshold, step, step)

    def excess_two(self, threshold: int, active: float, inactive: float) -> float:
        """Excess risk with a step size for each group."""
        from_own, from_common = self._curves(threshold)
        return self._at(from_own, active) + self._at(from_common, inactive)

    def best_excess(self, threshold: int) -> tuple[float, float]:
        """The least excess risk over step sizes, and the step size."""
        curve = sum(self._curves(threshold))
        return float(np.min(curve)), float(self.steps[np.argmin(curve)])

    def best_excess_two(self, threshold: int) -> tuple[float, float, float]:
        """The least excess risk with a step size for each group, and the step sizes (active, inactive)."""
        own, common = self._curves(threshold)
        active, inactive = self.steps[own.argmin()], self.steps[common.argmin()]
        return float(own.min() + common.min()), float(active), float(inactive)

    def soft_excess(self, step: float) -> float:
        """Excess risk from the empirical-Bayes starts."""
        return self._at(self.settings.law @ self._all_shrunk, step)

    def best_soft_excess(self) -> tuple[float, float]:
        """The least excess risk from the empirical-Bayes starts over step sizes, and the step size."""
        curve = self.settings.law @ self._all_shrunk
        return float(curve.min()), float(self.steps[curve.argmin()])

    @property
    def soft_error(self) -> float:
        """Expected squared error of the empirical-Bayes starts."""
        return float(self.settings.law @ self._at_all_lengths(self.shrunk_errors[:, None])[:, 0])

    def _curves(self, threshold: int) -> tuple[Floats, Floats]:
        """Parts of the excess risk by step size, of users with T >= threshold and of the others."""
        if not 0 <= threshold <= self.settings.most + 1:
            raise ConfigError(f"excess: expected a threshold to {self.settings.most + 1}, got {threshold}")
        law = self.settings.law
        return np.asarray(law[threshold:] @ self._all_own[threshold:]), law[:threshold].sum() * self.common

    @cached_property
    def _all_own(self) -> Floats:
        return self._at_all_lengths(self.own)

    @cached_property
    def _all_shrunk(self) -> Floats:
        return self._at_all_lengths(self.shrunk)

    def _at_all_lengths(self, surface: Floats) -> Floats:
        """[T + 1, G] from [L, G]."""
        at, known = np.log(np.arange(1, len(self.errors) + 1)), np.log(self.lengths + 1)
        return np.stack([np.interp(at, known, column) for column in surface.T], 1)

    def _at(self, curve: Floats, step: float) -> float:
        if not self.steps[0] <= step <= self.steps[-1]:
            raise ConfigError(
                f"excess: expected a step size from {self.steps[0]:g} to {self.steps[-1]:g}, got {step:g}"
            )
        return float(np.interp(np.log(step), np.log(self.steps), curve))


def simulate_online(settings: OnlineSettings, seed: int, steps: Floats = STEPS) -> OnlineRun:
    """Offline descent on up to `most` events of every user, then online descent from all starts."""
    world, lengths = make_online_world(settings, seed), grid_of_lengths(settings.most)
    offline = offline_descent(world, settings.most, lengths, np.random.default_rng([seed, 1]))
    shrunk = _shrunk(world, offline)
    common = np.broadcast_to(world.common, (1, *world.users.shape))
    starts = np.concatenate([offline.vectors, shrunk, common])  # [2 L + 1, U, D]
    surface = excess_surface(world, starts, steps, np.random.default_rng([seed, 2]))
    count = len(lengths)
    return OnlineRun(
        settings,
        world.variance,
        float(np.linalg.norm(world.best, axis=1).max()),
        offline.errors,
        ((shrunk - world.best) ** 2).sum(2).mean(1),
        offline.lengths,
        steps,
        surface[:count],
        surface[count:-1],
        surface[-1],
    )


def grid_of_lengths(most: int) -> list[int]:
    """Every T to 12, then T with a constant ratio, to `most`."""
    spaced = np.geomspace(1, most, MOST_LENGTHS).round().astype(int)
    return sorted({one for one in (*range(13), *spaced.tolist()) if one <= most})


def _shrunk(world: OnlineWorld, offline: Offline) -> Floats:
    """Means of m and the own vectors with weights inverse to their errors [L, U, D]; m for users without events.

    The vector of a user without events is 0, whose error is not independent of that of m.
    """
    errors = offline.errors[offline.lengths]
    weight = np.where(offline.lengths > 0, world.variance / (world.variance + errors), 0.0)
    return np.asarray(world.common + weight[:, None, None] * (offline.vectors - world.common))
