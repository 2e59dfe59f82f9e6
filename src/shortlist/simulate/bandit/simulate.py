"""Bandit systems on the same rounds, all seeds and systems at once."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.errors import ConfigError, DataError
from shortlist.nominate.pools import Pools, make_pools
from shortlist.progress import Progress, silent
from shortlist.simulate.bandit.group import Group
from shortlist.simulate.bandit.regret import Regret, RegretSum, gathered
from shortlist.simulate.bandit.systems import BanditSettings, MakePools, System, check_systems
from shortlist.simulate.bandit.worlds import BanditWorld, Round


def random_pools(arms: int, nominators: int, seed: int) -> Pools:
    """Random pools of equal sizes."""
    return make_pools(arms, nominators, seed=seed)


def simulate(
    world: BanditWorld,
    systems: Sequence[System],
    *,
    seeds: Sequence[int],
    rounds: int,
    settings: BanditSettings | None = None,
    pools: MakePools = random_pools,
    masks: NDArray[np.float64] | None = None,
    keep_actions: bool = False,
    progress: Progress = silent,
) -> Regret:
    """The regret of every system on every seed; contexts, noise and pools of a seed are the same for all systems.

    Without `masks` [N, D] every nominator sees a random subset of features of its own.
    """
    settings = settings or BanditSettings()
    check_systems(systems, world.width)
    if rounds < 1 or not seeds:
        raise ConfigError(f"bandit: expected rounds and seeds, got {rounds} rounds and {len(seeds)} seeds")
    order = sorted(
        range(len(systems)), key=lambda row: (systems[row].n_nominators, systems[row].ranker is None)
    )
    parts = [list(part) for _, part in groupby(order, key=lambda row: _shape(systems[row]))]
    groups = [Group(world, [systems[row] for row in part], seeds, settings, pools, masks) for part in parts]
    sums = [RegretSum(len(part), len(seeds), settings.device) for part in parts]
    uniform, uniforms = torch.zeros(len(seeds), dtype=torch.float64, device=settings.device), []
    actions: list[Tensor] = []
    recorded: list[int] = []
    with torch.inference_mode():
        stream = world.rounds(seeds, settings.dtype, settings.device)
        for number in range(1, rounds + 1):
            round_ = _checked(stream.next(), number)
            played = [group.step(round_) for group in groups]
            for total, one in zip(sums, played, strict=True):
                total.add(round_, one)
            rewards = round_.rewards.double()
            uniform += rewards.amax(1) - rewards.mean(1)
            if keep_actions:
                actions.append(torch.cat([one.action for one in played]))
            if number % settings.record_every == 0 or number == rounds:
                recorded.append(number)
                uniforms.append(uniform.clone())
                for total in sums:
                    total.record()
                progress("bandit rounds", number, rounds)
    back = np.argsort(np.array([row for part in parts for row in part]))
    curves = np.concatenate([total.curves() for total in sums], axis=1)[:, back]
    return gathered(
        systems, seeds, recorded, curves, torch.stack(uniforms, -1).cpu().numpy(), _actions(actions, back)
    )


def _shape(system: System) -> tuple[int, bool]:
    return system.n_nominators, system.ranker is None


def _checked(round_: Round, number: int) -> Round:
    finite = torch.isfinite(round_.rewards).all() & torch.isfinite(round_.contexts).all()
    if not bool(finite):
        raise DataError(
            f"bandit: expected finite contexts and rewards, got another in round {number}; check the world's data"
        )
    return round_


def _actions(actions: Sequence[Tensor], back: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if not actions:
        return None
    stacked: NDArray[np.int64] = torch.stack(list(actions), -1).cpu().numpy()[back]
    return stacked
