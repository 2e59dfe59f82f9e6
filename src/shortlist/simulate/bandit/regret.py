"""Regret of simulated systems, split into what the nominators and what the ranker lost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.simulate.bandit.played import Played
from shortlist.simulate.bandit.systems import System
from shortlist.simulate.bandit.worlds import Rounds

Floats = NDArray[np.float64]
PARTS = ("total", "nominator", "ranker")


@dataclass(frozen=True)
class PairedDifference:
    """The mean over seeds of one system's regret minus another's, with twice its standard error."""

    mean: float
    two_se: float

    @property
    def low(self) -> float:
        return self.mean - self.two_se

    @property
    def high(self) -> float:
        return self.mean + self.two_se


@dataclass(frozen=True, eq=False)
class Regret:
    """Cumulative regret [systems, seeds, recorded rounds]: by expected rewards, and by realised ones.

    The total is the sum of both parts in every round. Parts by expected rewards are never negative, those by realised
    rewards may be.
    """

    systems: tuple[System, ...]
    seeds: tuple[int, ...]
    at: NDArray[np.int64]  # recorded rounds
    nominator: Floats
    ranker: Floats
    realised_nominator: Floats
    realised_ranker: Floats
    uniform: (
        Floats  # [seeds, recorded rounds] of an agent that plays every arm equally often, by realised rewards
    )
    actions: NDArray[np.int64] | None = None  # [systems, seeds, rounds]

    @property
    def total(self) -> Floats:
        return self.nominator + self.ranker

    @property
    def realised_total(self) -> Floats:
        return self.realised_nominator + self.realised_ranker

    def row(self, system: System) -> int:
        """The place of a system."""
        try:
            return self.systems.index(system)
        except ValueError:
            raise ConfigError(f"bandit: expected a simulated system, got {system}") from None

    def final(self, system: System, part: str = "total") -> Floats:
        """Regret of each seed after the last round."""
        values: Floats = getattr(self, part)[self.row(system), :, -1]
        return values

    def paired(self, one: System, other: System, part: str = "total") -> PairedDifference:
        """Regret of `one` minus that of `other` after the last round, by the same contexts."""
        return paired(self.final(one, part), self.final(other, part))


def paired(one: Floats, other: Floats) -> PairedDifference:
    """The difference of two systems over seeds."""
    gap = one - other
    spread = float(np.std(gap, ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0
    return PairedDifference(float(gap.mean()), 2 * spread)


class RegretSum:
    """Sums of regret of one group, in float64."""

    def __init__(self, n_systems: int, n_seeds: int, device: str) -> None:
        # nominator and ranker by expected rewards, then by realised rewards
        self.sums = torch.zeros((4, n_seeds, n_systems), dtype=torch.float64, device=device)
        self.recorded: list[Tensor] = []

    def add(self, rounds: Rounds, played: Played) -> None:
        """Adds a block of rounds."""
        best = rounds.means.argmax(2, keepdim=True)  # [S, R, 1]
        for at, values in ((0, rounds.means), (2, rounds.rewards)):
            of_best, candidate, action = (
                values.gather(2, arms).double() for arms in (best, played.best_candidate, played.action)
            )
            self.sums[at] = after(self.sums[at], of_best - candidate)
            self.sums[at + 1] = after(self.sums[at + 1], candidate - action)

    def record(self) -> None:
        self.recorded.append(self.sums.clone())

    def curves(self) -> Floats:
        """[4, systems, seeds, recorded rounds]."""
        stacked: Floats = torch.stack(self.recorded, -1).transpose(1, 2).cpu().numpy()
        return stacked


def after(sums: Tensor, values: Tensor) -> Tensor:
    """Sums [S, Q] after values [S, R, Q], added one round after the other."""
    return torch.cat([sums[:, None], values], dim=1).cumsum(1)[:, -1]


def gathered(
    systems: Sequence[System],
    seeds: Sequence[int],
    at: Sequence[int],
    curves: Floats,
    uniform: Floats,
    actions: NDArray[np.int64] | None,
) -> Regret:
    """A result from the curves of all systems [4, systems, seeds, recorded rounds]."""
    return Regret(
        tuple(systems),
        tuple(seeds),
        np.asarray(at),
        nominator=curves[0],
        ranker=curves[1],
        realised_nominator=curves[2],
        realised_ranker=curves[3],
        uniform=uniform,
        actions=actions,
    )
