"""What systems with the same number of nominators share: pools and features of every seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError
from shortlist.nominate.pools import Pools
from shortlist.simulate.bandit.draws import MASKS, SINGLE, nested_masks
from shortlist.simulate.bandit.systems import ORACLE, BanditSettings, MakePools, System
from shortlist.simulate.bandit.worlds import BanditWorld

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class GroupSetup:
    """Q systems on S seeds, with N nominators each."""

    systems: tuple[System, ...]
    seeds: tuple[int, ...]
    width: int
    n_arms: int
    in_pool: Bools  # [S, N, A]
    arms: Integers  # [S, N, P] of the pools in ascending order, padded
    valid: Bools  # [S, N, P]
    masks: Bools  # [Q, S, N, D] features of the nominators

    @classmethod
    def of(
        cls,
        world: BanditWorld,
        systems: Sequence[System],
        seeds: Sequence[int],
        settings: BanditSettings,
        make: MakePools,
        masks: Floats | None = None,
    ) -> "GroupSetup":
        """Pools and features by the seeds; with `masks` [N, D] the same features for all of them."""
        pools = made_pools(make, world.arms, systems[0].n_nominators, seeds)
        arms, valid = _padded(pools)
        shape = (len(systems), len(seeds), systems[0].n_nominators, world.width)
        shown = _masks(systems, seeds, world.width, settings) if masks is None else masks > 0
        if masks is not None and masks.shape != shape[2:]:
            raise ConfigError(
                f"bandit: expected masks of {shape[2]} nominators and {shape[3]} features, got {list(masks.shape)}; "
                "simulate systems with other numbers of nominators apart"
            )
        in_pool = np.stack([one.matrix for one in pools])
        shared = tuple(systems), tuple(seeds), world.width, world.arms
        return cls(*shared, in_pool, arms, valid, np.broadcast_to(shown, shape))

    @property
    def n_nominators(self) -> int:
        return self.systems[0].n_nominators

    @property
    def single(self) -> bool:
        """Whether the only nominator decides."""
        return self.systems[0].ranker is None

    def alphas(self, settings: BanditSettings) -> tuple[Floats, Floats]:
        """Exploration of the nominators and of the ranker of each system; 0 is greedy."""
        nominators, rankers = np.array([settings.alphas_of(one) for one in self.systems]).T
        return nominators, rankers

    @property
    def oracle(self) -> Bools:
        """Which systems have an oracle as their ranker."""
        return np.array([one.ranker == ORACLE for one in self.systems])


def made_pools(make: MakePools, arms: int, n_nominators: int, seeds: Sequence[int]) -> list[Pools]:
    """The pools of every seed, of the size that the systems need."""
    pools = [make(arms, n_nominators, seed) for seed in seeds]
    for seed, one in zip(seeds, pools, strict=True):
        if one.matrix.shape != (n_nominators, arms):
            raise ConfigError(
                f"bandit: expected pools of {n_nominators} nominators and {arms} arms, got {one.n_nominators} and "
                f"{one.n_items} with seed {seed}"
            )
    return pools


def _masks(systems: Sequence[System], seeds: Sequence[int], width: int, settings: BanditSettings) -> Bools:
    purpose = SINGLE if systems[0].ranker is None else MASKS
    order = nested_masks(seeds, systems[0].n_nominators, width, purpose)  # [S, N, D]
    if settings.same_masks:
        order = np.broadcast_to(order[:, :1], order.shape)
    return np.stack([order < one.subset for one in systems])


def _padded(pools: Sequence[Pools]) -> tuple[Integers, Bools]:
    """Arms of the pools of every seed, padded to the largest [S, N, P]."""
    parts = [one.padded() for one in pools]
    largest = max(valid.shape[1] for _, valid in parts)
    arms, valid = (
        np.stack([np.pad(part, [(0, 0), (0, largest - part.shape[1])]) for part in side])
        for side in zip(*parts, strict=True)
    )
    return arms, valid
