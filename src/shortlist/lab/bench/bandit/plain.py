"""A two-stage bandit the plain way: one seed and one system at a time, a loop over rounds and nominators."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.simulate.bandit.setup import GroupSetup
from shortlist.simulate.bandit.simulate import random_pools
from shortlist.simulate.bandit.systems import BanditSettings, MakePools, System
from shortlist.simulate.bandit.worlds import BanditWorld

Floats = NDArray[np.float64]


@dataclass
class PlainRidge:
    """One ridge regression on some of the features."""

    features: NDArray[np.int64]
    penalty: float
    theta: Floats = field(init=False)
    sigma: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.theta = np.zeros(len(self.features))
        self.sigma = np.eye(len(self.features)) / self.penalty

    def scores(self, contexts: Floats, alpha: float) -> Floats:
        """Predicted rewards of contexts [P, D] plus `alpha` standard errors."""
        x = contexts[:, self.features]
        predicted: Floats = x @ self.theta
        if alpha:
            predicted = predicted + alpha * np.sqrt(((x @ self.sigma) * x).sum(1))
        return predicted

    def learn(self, context: Floats, reward: float, weight: float = 1.0) -> None:
        """One example."""
        if weight:
            x = context[self.features]
            moved = self.sigma @ x
            factor = weight / (1 + weight * (x @ moved))
            self.theta = self.theta + factor * moved * (reward - self.theta @ x)
            self.sigma = self.sigma - factor * np.outer(moved, moved)


@dataclass(frozen=True)
class PlainRun:
    """Shown arms of each round, and the nominator and the ranker regret after the last."""

    actions: NDArray[np.int64]
    nominator: float
    ranker: float


def plain_runs(
    world: BanditWorld,
    systems: Sequence[System],
    seed: int,
    rounds: int,
    settings: BanditSettings,
    make: MakePools = random_pools,
) -> list[PlainRun]:
    """Every system on the rounds of one seed, which are drawn once."""
    stream, drawn = world.rounds([seed], torch.float64, "cpu"), 0
    blocks = []
    while drawn < rounds:
        block = stream.next(rounds - drawn)
        blocks.append([one[0].numpy().copy() for one in (block.contexts, block.means, block.rewards)])
        drawn += len(block)
    contexts, means, rewards = (np.concatenate(one) for one in zip(*blocks, strict=True))
    setups = [GroupSetup.of(world, [system], [seed], settings, make) for system in systems]
    return [_run(one, settings, contexts, means, rewards) for one in setups]


def _run(
    setup: GroupSetup, settings: BanditSettings, contexts: Floats, means: Floats, rewards: Floats
) -> PlainRun:
    system, (alpha, alpha_ranker) = setup.systems[0], (one[0] for one in setup.alphas(settings))
    pools = [np.flatnonzero(row) for row in setup.in_pool[0]]
    nominators = [PlainRidge(np.flatnonzero(row), settings.penalty) for row in setup.masks[0, 0]]
    ranker = PlainRidge(np.arange(setup.width), settings.penalty)
    actions, of_nominators, of_ranker = [], 0.0, 0.0
    for x, mean, reward in zip(contexts, means, rewards, strict=True):
        found = [
            pool[one.scores(x[pool], alpha).argmax()] for pool, one in zip(pools, nominators, strict=True)
        ]
        candidates = np.unique(found)
        action = int(candidates[ranker.scores(x[candidates], alpha_ranker).argmax()])
        action = int(found[0]) if system.ranker is None else action
        best = mean[candidates].max()
        of_nominators += mean.max() - best
        of_ranker += best - mean[action]
        for one in nominators:
            one.learn(x[action], reward[action])
        if system.ranker is not None:
            ranker.learn(x[action], reward[action])
        actions.append(action)
    return PlainRun(np.array(actions), float(of_nominators), float(of_ranker))
