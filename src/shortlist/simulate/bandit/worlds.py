"""Worlds of a bandit: contexts of all arms in each round, their expected rewards and their rewards."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.simulate.bandit.cpu_kernel import inner_products
from shortlist.simulate.bandit.draws import COEFFICIENTS, CONTEXTS, NOISE, Normals, generator


@dataclass(frozen=True, eq=False)
class Rounds:
    """Consecutive rounds of every seed."""

    contexts: Tensor  # [S, R, A, D]
    means: Tensor  # [S, R, A] expected rewards
    rewards: Tensor  # [S, R, A]

    def __len__(self) -> int:
        return self.means.shape[1]


class RoundStream(Protocol):
    """A sequence of rounds, a block at a time."""

    def next(self, most: int) -> Rounds:
        """At least one round and at most so many; valid until the next call."""
        ...


class BanditWorld(Protocol):
    """What the two-stage bandit is played on."""

    @property
    def width(self) -> int: ...

    @property
    def arms(self) -> int: ...

    def rounds(self, seeds: Sequence[int], dtype: torch.dtype, device: torch.device | str) -> RoundStream: ...


@dataclass(frozen=True)
class LinearWorld:
    """Rewards linear in normal contexts: coefficients uniform on the unit sphere, noise of a given variance."""

    width: int
    arms: int
    noise_var: float = 0.01

    def __post_init__(self) -> None:
        if self.width < 1 or self.arms < 1:
            raise ConfigError(
                f"linear world: expected at least one feature and one arm, got {self.width} and {self.arms}"
            )
        if not self.noise_var >= 0:
            raise ConfigError(f"linear world: expected a variance of at least 0, got {self.noise_var}")

    def coefficients(self, seed: int) -> Tensor:
        """The unit vector of a seed [D], float64."""
        drawn = torch.from_numpy(generator(seed, COEFFICIENTS, self.width).standard_normal(self.width))
        unit: Tensor = drawn / drawn.norm()
        return unit

    def rounds(
        self, seeds: Sequence[int], dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> "LinearRounds":
        return LinearRounds(self, seeds, dtype, device)


class LinearRounds:
    """Rounds of a linear world."""

    def __init__(
        self, world: LinearWorld, seeds: Sequence[int], dtype: torch.dtype, device: torch.device | str
    ) -> None:
        theta = torch.stack([world.coefficients(seed) for seed in seeds])
        self.theta = theta.to(device, dtype)  # [S, D]
        self._contexts = Normals(seeds, CONTEXTS, (world.arms, world.width), dtype=dtype, device=device)
        self._noise = Normals(seeds, NOISE, (world.arms,), dtype=dtype, device=device)
        self._deviation = world.noise_var**0.5

    def next(self, most: int) -> Rounds:
        contexts = self._contexts.next(most)  # [S, R, A, D]
        means = products(contexts, self.theta)
        noise = self._noise.next(contexts.shape[1], exactly=True)
        return Rounds(contexts, means, means + self._deviation * noise)


def products(contexts: Tensor, theta: Tensor) -> Tensor:
    """Inner products [S, R, A] of contexts [S, R, A, D] and theta [S, D], whose bits no other seed or round changes."""
    if contexts.device.type != "cpu":
        return (contexts * theta[:, None, None]).sum(-1)
    found = contexts.new_empty(contexts.shape[:-1])
    for x, own, out in zip(contexts, theta, found, strict=True):
        inner_products(x.numpy(), own.numpy(), out.numpy())
    return found
