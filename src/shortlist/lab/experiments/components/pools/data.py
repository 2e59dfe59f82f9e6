"""Rows of the pool experiment, and the examples of every arm, all seeds side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shortlist.lab.experiments.components.pools.points import Point
from shortlist.models.mixture import feature_subsets
from shortlist.nominate.pools import make_pools
from shortlist.simulate.labels import Eurlex, LabelTable, PowerLawWorld, slate_quality

TRAIN, VALID, TEST = range(3)
VALID_SHARE = 1 / 8  # of the published training documents


@dataclass(frozen=True)
class Sizes:
    """How much of a world is used."""

    arms: int = 100
    width: int = 400
    blocks: int = 10
    positives: float = 10.73
    rows: tuple[int, int, int] = (
        20_000,
        3_000,
        5_000,
    )  # training, validation and test rows of the simulated world

    @classmethod
    def small(cls) -> "Sizes":
        """A world for quick runs."""
        return cls(16, 20, 4, 2.0, (400, 120, 150))


@dataclass(frozen=True, eq=False)
class SeedTables:
    """Training, validation and test rows of each seed; features [S, R, D], labels [S, R, A]."""

    features: tuple[Tensor, Tensor, Tensor]
    labels: tuple[Tensor, Tensor, Tensor]
    seeds: tuple[int, ...]
    known: Tensor | None = (
        None  # [S, 2] precision and recall of the best scores that features allow, where known
    )

    @classmethod
    def of(
        cls, parts: Sequence[Sequence[LabelTable]], seeds: Sequence[int], device: torch.device
    ) -> "SeedTables":
        """From training, validation and test table of each seed."""
        features = [torch.stack([one[at].features for one in parts]).to(device) for at in range(3)]
        labels = [torch.stack([one[at].labels for one in parts]).to(device) for at in range(3)]
        return cls((features[0], features[1], features[2]), (labels[0], labels[1], labels[2]), tuple(seeds))

    @property
    def arms(self) -> int:
        return int(self.labels[TRAIN].shape[2])

    @property
    def width(self) -> int:
        return int(self.features[TRAIN].shape[2])

    @property
    def device(self) -> torch.device:
        return self.features[TRAIN].device

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of rewards in the training rows."""
        rate = float(self.labels[TRAIN].float().mean())
        return float(np.sqrt(rate * (1 - rate)))

    def examples(self, count: int) -> Tensor:
        """Training rows of every arm, drawn with replacement [S, A, count]; more of them begin with the fewer."""
        rows = self.labels[TRAIN].shape[1]
        drawn = [
            np.random.default_rng([seed, 5, self.arms]).integers(rows, size=(count, self.arms)).T
            for seed in self.seeds
        ]
        return torch.from_numpy(np.stack(drawn)).to(self.device)

    def drawn(self, rows: Tensor, seeds: Tensor) -> tuple[Tensor, Tensor]:
        """Features [S, A, M, D] and rewards [S, A, M] of training rows [S, A, M]; `seeds` is 0, 1, ... [S, 1, 1]."""
        items = torch.arange(rows.shape[1], device=rows.device)[:, None]
        x = self.features[TRAIN][seeds, rows]
        return x, self.labels[TRAIN][seeds, rows, items].to(x.dtype)

    def masks(self, point: Point, n_experts: int, subset: int) -> Tensor:
        """The features that each expert reads [S, D, N]; larger subsets contain smaller ones."""
        if point.blocks:
            block = torch.arange(self.width) * n_experts // self.width
            own = block[:, None] == torch.arange(n_experts)
            return own.expand(len(self.seeds), -1, -1).to(self.device)
        subset = min(subset, self.width)
        shown = [feature_subsets(self.width, n_experts, subset, seed=seed) for seed in self.seeds]
        return torch.stack(shown).to(self.device)

    def random_pools(self, n_experts: int) -> Tensor:
        """Hard random pools as weights [S, A, 1, N]."""
        pools = [make_pools(self.arms, n_experts, seed=seed).matrix.T for seed in self.seeds]
        return torch.from_numpy(np.stack(pools)).to(self.device, torch.float32)[:, :, None]


def simulated(sizes: Sizes, kappa: float, seeds: Sequence[int], device: torch.device) -> SeedTables:
    """A power-law world of its own for each seed."""
    parts, known = [], []
    for seed in seeds:
        world = PowerLawWorld(
            sizes.arms, sizes.width, kappa, positives=sizes.positives, blocks=sizes.blocks, seed=seed
        )
        parts.append([world.table(rows, part) for part, rows in enumerate(sizes.rows)])
        test = parts[-1][TEST]
        scores = torch.from_numpy(world.probabilities(test.features.double().numpy()))
        known.append(torch.stack(slate_quality(scores, test.labels).means))
    return replace(SeedTables.of(parts, seeds, device), known=torch.stack(known))


def documents(eurlex: Eurlex, seeds: Sequence[int], device: torch.device) -> SeedTables:
    """The published test documents, and for each seed other validation documents among those of training."""
    parts = []
    for seed in seeds:
        order = torch.from_numpy(np.random.default_rng([seed, 6]).permutation(len(eurlex.train)))
        held_out = round(len(order) * VALID_SHARE)
        parts.append([eurlex.train.of(order[held_out:]), eurlex.train.of(order[:held_out]), eurlex.test])
    return SeedTables.of(parts, seeds, device)
