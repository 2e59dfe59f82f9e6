"""Cells of the regret figure on rows with labels: the systems of one number of nominators, played with one seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.parallel import run_cells
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit import BanditSettings, Regret, System, simulate
from shortlist.simulate.bandit.grid import subsets
from shortlist.simulate.labels import LabelBandit, LabelTable, PowerLawWorld, simulate_disjoint
from shortlist.simulate.labels.eurlex import read_eurlex
from shortlist.simulate.labels.label_bandit import ARM_IS_LABEL, DISJOINT, TARGET

POWER_LAW = "power-law"
RATIOS = (2, 4, 10, 20, 40)
POLICIES = ("U", "G")
TUNING_SEEDS = range(1000, 1003)
ALPHAS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
TUNED = 0.25  # share of the rounds in which exploration is tuned
SINGLE, RANDOM, TUNING = "single stage", "random nominators", "tuning"
COLUMNS = ("total", "nominator", "uniform")  # realised regret after the last round, of each system
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """One reading of rows with labels as a bandit, with its grid."""

    conversion: str
    arms: int
    nominators: tuple[int, ...]
    rounds: int
    ratios: tuple[float, ...] = RATIOS
    policies: tuple[tuple[str, str], ...] = (("U", "U"),)  # of the ranker and of the nominators

    def __str__(self) -> str:
        return f"{self.conversion}, A={self.arms}, T={self.rounds}"

    @property
    def parts(self) -> list[str]:
        """What is played side by side, the longest first."""
        explores = self.conversion == TARGET and len(self.nominators) > 1
        counts = [f"N={count}" for count in sorted(self.nominators, reverse=True) if count <= self.arms]
        return [*counts, SINGLE, *([RANDOM] if explores else [])]

    def systems(self, part: str, width: int, alpha: float) -> list[System]:
        """Systems of a part, with one exploration for UCB in all roles."""
        if part == SINGLE:
            shown = subsets(width, (1, *self.ratios))
            return [System(policy, 1, subset, None, alpha) for subset in shown for policy in POLICIES]
        if part == RANDOM:
            return [
                System("G", count, 1, "U", None, alpha) for count in self.nominators if count <= self.arms
            ]
        return [
            System(nominator, int(part.removeprefix("N=")), subset, ranker, alpha, alpha)
            for subset in subsets(width, self.ratios)
            for ranker, nominator in self.policies
        ]

    def tried(self, width: int) -> list[System]:
        """Systems with every exploration, at half of the features and the middle number of nominators."""
        subset, count = subsets(width, (2,))[0], self.nominators[len(self.nominators) // 2]
        return [System("U", count, subset, "U", alpha, alpha) for alpha in ALPHAS]


EVERY_PAIR = tuple((ranker, nominator) for ranker in POLICIES for nominator in POLICIES)
FULL = (
    Place(TARGET, 1000, (2, 5, 10, 20, 50), 5000),
    Place(TARGET, 100, (2, 5, 10, 20, 50), 5000),
    Place(ARM_IS_LABEL, 100, (2, 5, 10, 20, 50), 5000, (4, 40)),
    Place(DISJOINT, 100, (2, 10, 50), 2000, (4, 40)),
    Place(TARGET, 100, (10,), 2000, (2, 10), EVERY_PAIR),
)
QUICK = (
    Place(TARGET, 20, (2, 5), 120, (4,)),
    Place(ARM_IS_LABEL, 20, (2,), 60, (4,)),
    Place(DISJOINT, 20, (2,), 60, (4,)),
)


@dataclass(frozen=True)
class Source:
    """Where the rows come from."""

    world: str
    profile: str
    data: Path | None

    @property
    def places(self) -> tuple[Place, ...]:
        return FULL if self.profile == "full" else QUICK


@lru_cache(maxsize=1)
def table_of(source: Source) -> LabelTable:
    """Rows with labels; a small world for the quick profile."""
    if source.profile == "quick":
        return replace(PowerLawWorld(), arms=30, width=40, positives=3.0).table(800)
    if source.world == POWER_LAW:
        return PowerLawWorld().table(20_000)
    if source.data is None:
        raise ConfigError(
            f"components-fig4-{source.world}: the full profile needs --data, the folder with eurlex-4k; give it"
        )
    return read_eurlex(source.data).train


@dataclass(frozen=True)
class RegretCell:
    """One part of a place with one seed; without an exploration the cell tries all of them."""

    source: Source
    place: Place
    part: str
    seed: int
    alpha: float = 0.0

    def __str__(self) -> str:
        return f"{self.source.world}/{self.place}/{self.part}/{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the answer."""
        shared = {"rounds": self.rounds, **settings_of(self).as_json()}
        if self.part == TUNING:
            return {**shared, "alphas": ALPHAS}
        return {**shared, "alpha": self.alpha, "ratios": self.place.ratios, "policies": self.place.policies}

    @property
    def rounds(self) -> int:
        return max(1, round(TUNED * self.place.rounds)) if self.part == TUNING else self.place.rounds


def settings_of(cell: RegretCell) -> BanditSettings:
    """How the systems of a cell learn.

    Compiled code keeps the features of a nominator only; a GPU would read all 400 x 400 numbers of each. With
    coefficients for each arm, arms that were never played are equal: the lowest of them is the most frequent label.
    """
    epsilon = 1.0 if cell.part == RANDOM else 0.0
    tie = "random" if cell.place.conversion == DISJOINT else "first"
    return BanditSettings(dtype=torch.float32, record_every=cell.rounds, epsilon=epsilon, tie=tie)


def played(cell: RegretCell) -> tuple[Tensor, dict[str, Any]]:
    """Realised regret of every system of a cell, of its nominators and of a uniform agent [systems, 3]."""
    table, place = table_of(cell.source), cell.place
    systems = (
        place.tried(table.width) if cell.part == TUNING else place.systems(cell.part, table.width, cell.alpha)
    )
    play = simulate_disjoint if place.conversion == DISJOINT else simulate
    bandit = LabelBandit(table, place.conversion, place.arms)
    found: Regret = play(bandit, systems, seeds=(cell.seed,), rounds=cell.rounds, settings=settings_of(cell))
    uniform = found.uniform[None, :, -1].repeat(len(systems), 0)
    last = [found.realised_total[:, :, -1], found.realised_nominator[:, :, -1], uniform]
    return torch.from_numpy(np.concatenate(last, axis=1)), {}


@dataclass(frozen=True, eq=False)
class PlayedPlace:
    """Regret of all systems of a place, by seed."""

    place: Place
    width: int
    alpha: float
    values: Mapping[System, Floats]  # [S, 3] in the order of COLUMNS
    random: Mapping[System, Floats]

    def __str__(self) -> str:
        return str(self.place)

    @property
    def two_stage(self) -> list[System]:
        return [one for one in self.values if one.ranker]

    def relative(self, system: System) -> Floats:
        """Regret over that of the uniform agent on the same rounds [S]."""
        return relative(self.values[system])

    def share(self, system: System) -> Floats:
        """The share of the nominators in the regret [S]."""
        values = self.values[system]
        return np.asarray(values[:, 1] / np.maximum(values[:, 0], 1e-9))


def relative(values: Floats) -> Floats:
    """Regret over that of the uniform agent [S], from the columns of a system."""
    return np.asarray(values[:, 0] / values[:, 2])


def play_all(
    source: Source, seeds: Sequence[int], cache: AnswerCache, jobs: int = 1, progress: Progress = silent
) -> list[PlayedPlace]:
    """Tune the exploration of every place on seeds of its own, then play all systems."""
    tuning = [RegretCell(source, place, TUNING, seed) for place in source.places for seed in TUNING_SEEDS]
    tried = _answers(tuning, cache, jobs, progress)
    alphas = {}
    for place in source.places:
        regret = np.mean([tried[one][:, 0] for one in tuning if one.place == place], axis=0)
        alphas[place] = ALPHAS[int(np.argmin(regret))]
    cells = [
        RegretCell(source, place, part, seed, alphas[place])
        for place in source.places
        for part in place.parts
        for seed in seeds
    ]
    found = _answers(cells, cache, jobs, progress)
    return [_gathered(place, alphas[place], found) for place in source.places]


def _answers(
    cells: Sequence[RegretCell], cache: AnswerCache, jobs: int, progress: Progress
) -> dict[RegretCell, Floats]:
    failed = run_cells(cells, cache, played, lambda cell: cell.settings, jobs, progress)
    for name, reason in failed.items():
        raise ConfigError(f"components-fig4: the cell {name} failed: {reason}")
    return {cell: cache.get(str(cell), lambda: (torch.empty(0), {}))[0].double().numpy() for cell in cells}


def _gathered(place: Place, alpha: float, found: Mapping[RegretCell, Floats]) -> PlayedPlace:
    own = [cell for cell in found if cell.place == place]
    width = table_of(own[0].source).width
    systems = {
        part: _by_system(place.systems(part, width, alpha), [found[one] for one in own if one.part == part])
        for part in place.parts
    }
    random = systems.pop(RANDOM, {})
    return PlayedPlace(
        place, width, alpha, {k: v for one in systems.values() for k, v in one.items()}, random
    )


def _by_system(systems: Iterable[System], answers: Sequence[Floats]) -> dict[System, Floats]:
    return {system: np.stack([one[row] for one in answers]) for row, system in enumerate(systems)}
