"""Cells of the regret figure: linear worlds, the exploration tuned on seeds of its own, and all systems of a grid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from shortlist.errors import ConfigError
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit import BanditSettings, LinearWorld, Regret, System, simulate
from shortlist.simulate.bandit.grid import RATIOS, grid_systems, subsets

TUNING_SEEDS = range(1000, 1005)
ALPHAS = (0.0, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
TUNED_RATIO = 2  # features of the ranker over those of a nominator, where the exploration is tuned


@dataclass(frozen=True)
class Sizes:
    """A grid: numbers of nominators by the number of features, numbers of arms, ratios of features."""

    nominators: Mapping[int, tuple[int, ...]]
    arms: tuple[int, ...]
    ratios: tuple[float, ...] = RATIOS
    rounds: int = 1000
    tuned_arms: int = 100
    tuned_nominators: int = 5
    control: tuple[int, int, int] = (
        20,
        100,
        5,
    )  # width, arms and nominators of the control of equal features
    draws: int = 400  # of the Monte Carlo of asymptotes


FULL = Sizes({10: (5,), 20: (5,), 40: (2, 5, 10, 20)}, (10, 100, 1000))
QUICK = Sizes({6: (2, 4), 10: (4,)}, (8, 20), (1, 2, 5), 150, 20, 4, (6, 20, 4), 50)


def sizes_of(profile: str) -> Sizes:
    """The grid of a profile."""
    if profile not in ("quick", "full"):
        raise ConfigError(f"components-fig3: expected a profile quick or full, got {profile!r}")
    return FULL if profile == "full" else QUICK


@dataclass(frozen=True)
class Tuned:
    """Exploration of UCB components with the least regret on the tuning seeds."""

    nominator: float
    ranker: float
    single: float


def device() -> str:
    """A GPU where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def settings(rounds: int, same_masks: bool = False) -> BanditSettings:
    """How all systems of the figure learn."""
    return BanditSettings(
        dtype=torch.float32, device=device(), record_every=max(rounds // 20, 1), same_masks=same_masks
    )


def tuned(width: int, sizes: Sizes) -> Tuned:
    """The least mean regret of UCB in both roles at the tuned ratio, and of a single stage."""
    subset = subsets(width, (TUNED_RATIO,))[0]
    pairs = [(one, other) for one in ALPHAS for other in ALPHAS]
    systems = [System("U", sizes.tuned_nominators, subset, "U", one, other) for one, other in pairs]
    singles = [System("U", 1, subset, None, one) for one in ALPHAS]
    world = LinearWorld(width, sizes.tuned_arms)
    found = simulate(
        world, [*systems, *singles], seeds=TUNING_SEEDS, rounds=sizes.rounds, settings=settings(sizes.rounds)
    )
    regret = found.total[:, :, -1].mean(1)
    nominator, ranker = pairs[int(np.argmin(regret[: len(pairs)]))]
    return Tuned(nominator, ranker, ALPHAS[int(np.argmin(regret[len(pairs) :]))])


@dataclass(frozen=True)
class Played:
    """The regret of all systems of one world, by exploration tuned for its width."""

    width: int
    arms: int
    alphas: Tuned
    regret: Regret

    def system(self, name: str, nominators: int, subset: int) -> System:
        """A system by its name in the figure."""
        ranker, _, nominator = name.rpartition("+")
        return with_alphas(
            System(nominator, nominators if ranker else 1, subset, ranker or None), self.alphas
        )


def with_alphas(system: System, alphas: Tuned) -> System:
    """A system with the exploration of its role."""
    nominator = alphas.single if system.ranker is None else alphas.nominator
    return System(
        system.nominator, system.n_nominators, system.subset, system.ranker, nominator, alphas.ranker
    )


def play(sizes: Sizes, seeds: Sequence[int], progress: Progress = silent) -> list[Played]:
    """All worlds of a grid."""
    found = []
    places = [(width, arms) for width in sizes.nominators for arms in sizes.arms]
    alphas = {width: tuned(width, sizes) for width in sizes.nominators}
    for done, (width, arms) in enumerate(places):
        progress("worlds", done, len(places))
        counts = [count for count in sizes.nominators[width] if count <= arms]
        systems = [with_alphas(one, alphas[width]) for one in grid_systems(width, counts, sizes.ratios)]
        world = LinearWorld(width, arms)
        regret = simulate(world, systems, seeds=seeds, rounds=sizes.rounds, settings=settings(sizes.rounds))
        found.append(Played(width, arms, alphas[width], regret))
    progress("worlds", len(places), len(places))
    return found


def play_control(sizes: Sizes, seeds: Sequence[int], alphas: Tuned) -> Played:
    """The world of the control, with the same features for all nominators."""
    width, arms, count = sizes.control
    systems = [with_alphas(one, alphas) for one in grid_systems(width, (count,), sizes.ratios)]
    same = settings(sizes.rounds, same_masks=True)
    regret = simulate(LinearWorld(width, arms), systems, seeds=seeds, rounds=sizes.rounds, settings=same)
    return Played(width, arms, alphas, regret)
