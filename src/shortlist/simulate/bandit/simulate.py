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
from shortlist.simulate.bandit.compiled_group import CompiledGroup, can_compile
from shortlist.simulate.bandit.group import Group
from shortlist.simulate.bandit.regret import Regret, RegretSum, after, gathered
from shortlist.simulate.bandit.setup import GroupSetup
from shortlist.simulate.bandit.systems import BanditSettings, MakePools, System, check_systems
from shortlist.simulate.bandit.worlds import BanditWorld, Rounds


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
    compiled: bool | None = None,
    keep_actions: bool = False,
    progress: Progress = silent,
) -> Regret:
    """The regret of every system on every seed; contexts, noise and pools of a seed are the same for all systems.

    Without `masks` [N, D] every nominator sees a random subset of features of its own. Compiled code plays on a CPU
    what it can, tensors play the rest.
    """
    settings = settings or BanditSettings()
    check_systems(systems, world.width)
    if not isinstance(rounds, int) or rounds < 1 or not seeds:
        raise ConfigError(f"bandit: expected rounds and seeds, got {rounds} rounds and {len(seeds)} seeds")
    order = sorted(
        range(len(systems)), key=lambda row: (systems[row].n_nominators, systems[row].ranker is None)
    )
    parts = [list(part) for _, part in groupby(order, key=lambda row: _shape(systems[row]))]
    if min(seeds) < 0:
        raise ConfigError(f"bandit: expected seeds from 0, got {min(seeds)}")
    if compiled and not can_compile(settings):
        raise ConfigError(
            "bandit: compiled code plays on a CPU without epsilon, ips and renewed inverses; leave compiled out"
        )
    compiled = can_compile(settings) if compiled is None else compiled
    made = CompiledGroup if compiled else Group
    groups = [
        made(GroupSetup.of(world, [systems[row] for row in part], seeds, settings, pools, masks), settings)
        for part in parts
    ]
    sums = [RegretSum(len(part), len(seeds), settings.device) for part in parts]
    uniform, uniforms = torch.zeros((len(seeds), 1), dtype=torch.float64, device=settings.device), []
    actions: list[Tensor] = []
    recorded: list[int] = []
    number = 0
    with torch.inference_mode():
        stream = world.rounds(seeds, settings.dtype, settings.device)
        while number < rounds:
            until = min(rounds, (number // settings.record_every + 1) * settings.record_every)
            block = _checked(stream.next(until - number), number)
            number += len(block)
            played = [group.play(block) for group in groups]
            for total, one in zip(sums, played, strict=True):
                total.add(block, one)
            rewards = block.rewards.double()
            uniform = after(uniform, (rewards.amax(2) - rewards.mean(2))[..., None])
            if keep_actions:
                actions.append(torch.cat([one.action for one in played], dim=2))
            if number == until:
                recorded.append(number)
                uniforms.append(uniform[:, 0])
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


def _checked(block: Rounds, number: int) -> Rounds:
    finite = torch.isfinite(block.rewards.sum() + block.contexts.sum())  # of any size, if one is not
    if not bool(finite):
        raise DataError(
            f"bandit: expected finite contexts and rewards, got others in the rounds after {number}; "
            "check the world's data, or leave the example out"
        )
    return block


def _actions(actions: Sequence[Tensor], back: NDArray[np.int64]) -> NDArray[np.int64] | None:
    if not actions:
        return None
    stacked: NDArray[np.int64] = torch.cat(list(actions), 1).permute(2, 0, 1).cpu().numpy()[back]
    return stacked
