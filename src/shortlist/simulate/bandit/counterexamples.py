"""Worlds in which one training objective of nominators works and another fails: Proposition 2, printed and repaired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.errors import ConfigError, did_you_mean
from shortlist.nominate.pools import Pools
from shortlist.simulate.bandit.draws import ROWS, generator
from shortlist.simulate.bandit.worlds import Rounds
from shortlist.train.pools import Nominations, WeightRule

SHOWN = 2  # features that the second nominator sees, the last ones
SECOND = 1  # its row

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Expected rewards of arms, their features and the pools; the second nominator sees the last two features."""

    name: str
    rewards: tuple[Fraction, ...]
    features: Floats  # [A, D]
    pools: Pools

    @property
    def means(self) -> Floats:
        return np.array([float(one) for one in self.rewards])

    @property
    def coefficients(self) -> Floats:
        """The coefficients that give the expected rewards."""
        return np.asarray(np.linalg.solve(self.features, self.means), np.float64)


def _arms(n_arms: int, minus_last: Sequence[int]) -> Floats:
    """Unit vectors, with minus one at the last feature of some arms."""
    features = np.eye(n_arms)
    features[list(minus_last), -1] -= 1
    return features


def _example(
    name: str, rewards: str, minus_last: Sequence[int], pools: Sequence[Sequence[int]]
) -> Counterexample:
    values = tuple(Fraction(one) for one in rewards.split())
    return Counterexample(name, values, _arms(len(values), minus_last), Pools.of(pools, len(values)))


_FIRST, _SECOND, _BANDIT = "1/4 1/2 1", "3/4 1 1/6 7/8", "3/4 7/8 1/6 1"
SUPERVISED: Mapping[str, Counterexample] = {
    one.name: one
    for one in (
        _example("own works", _FIRST, [0], [[0], [1, 2]]),  # equation 5
        _example("all works", _SECOND, [0, 1], [[0], [1, 2, 3]]),  # equation 6
        _example("bandit", _BANDIT, [0, 1], [[0], [1, 2, 3]]),
    )
}
BANDIT: Mapping[str, Counterexample] = {
    one.name: one
    for one in (
        _example("printed, two nominators", _BANDIT, [0, 1], [[0], [1, 2, 3]]),
        _example("printed, own should work", _BANDIT, [0, 1], [[0], [1, 2, 3], [1]]),
        _example("printed, all should work", _BANDIT, [0, 1], [[0], [1, 2, 3], [3]]),
        _example("repaired, own works", _BANDIT, [0, 1], [[0], [2, 3], [1]]),
        _example("repaired, all works", "1 3/4 1/6 7/8", [0, 1], [[0], [1, 2, 3], [3]]),
    )
}


@dataclass(frozen=True)
class SupervisedOutcome:
    """What the second nominator learns from the same number of examples of every arm, and what it picks."""

    coefficients: tuple[float, ...]  # of the features it sees
    scores: tuple[float, ...]  # of the arms of its pool
    pick: int
    best_candidate: float  # expected reward
    regret: float
    uniform: float  # expected reward of a random arm


def supervised_outcome(
    name: str, rule: str | WeightRule, penalty: float = 0.0, copies: int = 1
) -> SupervisedOutcome:
    """Ridge regression of the second nominator on `copies` examples of every arm; others have one arm each."""
    example = _named(SUPERVISED, name)
    rule = WeightRule.parse(rule) if isinstance(rule, str) else rule
    weights = _weights(example, rule)
    x = example.features[:, -SHOWN:]
    moments = copies * (x * weights[:, None]).T @ x + penalty * np.eye(SHOWN)
    theta = np.linalg.solve(moments, copies * x.T @ (weights * example.means))
    own = np.flatnonzero(example.pools.matrix[SECOND])
    scores = x[own] @ theta
    pick = int(own[scores.argmax()])
    others = [int(row.argmax()) for number, row in enumerate(example.pools.matrix) if number != SECOND]
    best = float(example.means[[pick, *others]].max())
    regret = float(example.means.max() - best)
    return SupervisedOutcome(tuple(theta), tuple(scores), pick, best, regret, float(example.means.mean()))


def _weights(example: Counterexample, rule: WeightRule) -> Floats:
    in_pool = torch.from_numpy(example.pools.matrix.T.copy())  # every arm was shown as often
    weights: Floats = rule.weights(Nominations(in_pool, in_pool)).double().numpy()[:, SECOND]
    return weights


@dataclass(frozen=True)
class Regime:
    """A sign of the last coefficient that the data it leads to confirm, or do not."""

    positive: bool
    coefficient: float  # in the limit
    consistent: bool
    regret: float  # of nominators per round


def regimes(name: str, rule: str | WeightRule) -> tuple[Regime, Regime]:
    """What greedy nominators settle on with an oracle ranker, for both signs of the last coefficient.

    In each round one arm has its features, the others have none and reward 0. With a positive coefficient the second
    nominator finds the arms with a positive last feature and loses those with a negative one, unless another nominator
    covers them; with a negative coefficient the reverse. Only found arms are learned from.
    """
    example = _named(BANDIT, name)
    rule = WeightRule.parse(rule) if isinstance(rule, str) else rule
    weights, x = _weights(example, rule), example.features[:, -1]
    found = []
    for positive in (True, False):
        found_by_sign = x * (1 if positive else -1) > 0
        others = np.delete(example.pools.matrix, SECOND, axis=0).any(0)
        seen = (example.pools.matrix[SECOND] & (found_by_sign | (x == 0))) | others
        mass = weights * seen
        moment = float((mass * x * x).sum())  # 0: nothing is learned about the last feature
        limit = float((mass * x * example.means).sum()) / moment if moment else 0.0
        lost = float(example.means[~seen].sum() / len(x))
        found.append(Regime(positive, limit, limit > 0 if positive else limit < 0, lost))
    return found[0], found[1]


@dataclass(frozen=True, eq=False)
class CounterexampleWorld:
    """One arm a round, drawn uniformly, has its features and a reward of 0 or 1; all others have neither."""

    example: Counterexample

    @property
    def width(self) -> int:
        return int(self.example.features.shape[1])

    @property
    def arms(self) -> int:
        return len(self.example.features)

    def pools(self, arms: int, nominators: int, seed: int) -> Pools:
        """The pools of the example, for every seed."""
        return self.example.pools

    def masks(self) -> Floats:
        """Features of the nominators [N, D]: the last two."""
        shown = np.arange(self.width) >= self.width - SHOWN
        return np.broadcast_to(shown, (self.example.pools.n_nominators, self.width)).astype(np.float64)

    def rounds(
        self, seeds: Sequence[int], dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> "CounterexampleRounds":
        return CounterexampleRounds(self.example, seeds, dtype, device)


class CounterexampleRounds:
    """Rounds of a counterexample."""

    def __init__(
        self, example: Counterexample, seeds: Sequence[int], dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self._example, self._dtype, self._device = example, dtype, device
        self._draws = [generator(seed, ROWS) for seed in seeds]

    def next(self, most: int) -> Rounds:
        means = self._example.means
        drawn = np.stack([one.random((most, 2)) for one in self._draws])  # [S, R, 2]
        arm = (drawn[..., :1] * len(means)).astype(np.int64)  # [S, R, 1]
        of_arm = np.arange(len(means)) == arm  # [S, R, A]
        contexts = of_arm[..., None] * self._example.features
        expected = of_arm * means
        rewards = of_arm * (drawn[..., 1:] < means)
        parts = (torch.from_numpy(one).to(self._device, self._dtype) for one in (contexts, expected, rewards))
        return Rounds(*parts)


def _named(known: Mapping[str, Counterexample], name: str) -> Counterexample:
    if name not in known:
        raise ConfigError(
            f"counterexample: expected {', '.join(known)}, got {name!r}{did_you_mean(name, known)}"
        )
    return known[name]
