"""A world of rows with several labels each, whose frequencies follow a power law."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from shortlist.errors import ConfigError
from shortlist.simulate.bandit.draws import COEFFICIENTS, CONTEXTS, generator
from shortlist.simulate.labels.table import LabelTable

NOISE = 0.5  # standard deviation of the noise of features
EXPLAINED = 0.9  # share of a label's variance that its latent factors explain

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PowerLawWorld:
    """Labels of frequency ∝ (rank + k0)^-gamma that depend on one block of latent factors each.

    A feature shows its own block with the share `kappa` of its variance without noise, and all blocks with the rest:
    at 1 a subset of features can know some labels better than others, at 0 it knows all of them about equally well. A
    share `empty` of rows has no label. The usual frequencies are those of the 100 categories in "On component
    interactions in two-stage recommender systems".
    """

    arms: int = 100
    width: int = 400
    kappa: float = 1.0
    gamma: float = 1.547
    k0: float = 18.0
    positives: float = 10.73  # expected labels of a row
    empty: float = 0.055
    blocks: int = 10
    block_width: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        least = min(self.arms, self.width, self.blocks, self.block_width)
        if least < 1 or self.width < self.blocks:
            raise ConfigError(
                "power-law world: expected at least one arm, and one feature for each block, got "
                f"{self.arms} arms, {self.width} features and {self.blocks} blocks of {self.block_width}"
            )
        if not (0 <= self.kappa <= 1 and 0 <= self.empty < 1):
            raise ConfigError(
                f"power-law world: expected kappa from 0 to 1 and empty from 0 to below 1, got {self.kappa} "
                f"and {self.empty}"
            )
        highest = float(self.frequencies.max()) / (1 - self.empty)
        if not (self.positives > 0 and highest < 1):
            raise ConfigError(
                f"power-law world: expected frequencies above 0 and below 1, got up to {highest:.3g} with "
                f"{self.positives} labels per row among {self.arms}; lower positives"
            )

    @property
    def frequencies(self) -> Floats:
        """The probability of each label, the most frequent first [A]."""
        weights = (np.arange(1, self.arms + 1, dtype=np.float64) + self.k0) ** -self.gamma
        found: Floats = weights / weights.sum() * self.positives
        return found

    @property
    def block_of_label(self) -> NDArray[np.int64]:
        """The block of each label: every block has frequent and rare ones."""
        return np.arange(self.arms) % self.blocks

    @property
    def block_of_feature(self) -> NDArray[np.int64]:
        """The block of each feature; features of a block are side by side."""
        return np.arange(self.width) * self.blocks // self.width

    @cached_property
    def loadings(self) -> Floats:
        """How features follow the latent factors [D, Z]."""
        random = generator(self.seed, COEFFICIENTS, self.width, self.blocks, self.block_width)
        own = _unit(random.standard_normal((self.width, self.block_width)))
        dense = _unit(random.standard_normal((self.width, self.blocks * self.block_width)))
        return math.sqrt(self.kappa) * _in_block(own, self.block_of_feature, self.blocks) + (
            math.sqrt(1 - self.kappa) * dense
        )

    @cached_property
    def directions(self) -> Floats:
        """The latent factors of each label, of norm 1 [A, Z]."""
        random = generator(self.seed, COEFFICIENTS, self.arms, self.blocks, self.block_width, 1)
        own = _unit(random.standard_normal((self.arms, self.block_width)))
        return _in_block(own, self.block_of_label, self.blocks)

    @property
    def thresholds(self) -> Floats:
        """A label is true where its normal score is above its threshold [A]."""
        found: Floats = stats.norm.isf(self.frequencies / (1 - self.empty))
        return found

    def table(self, rows: int, part: int = 0) -> LabelTable:
        """Rows of the world; each part has rows of its own."""
        random = generator(self.seed, CONTEXTS, part)
        latent = random.standard_normal((rows, self.blocks * self.block_width))
        features = latent @ self.loadings.T + NOISE * random.standard_normal((rows, self.width))
        own = math.sqrt(1 - EXPLAINED) * random.standard_normal((rows, self.arms))
        true = math.sqrt(EXPLAINED) * (latent @ self.directions.T) + own > self.thresholds
        true &= random.random((rows, 1)) >= self.empty
        return LabelTable(torch.from_numpy(features).float(), torch.from_numpy(true))

    def probabilities(self, features: Floats) -> Floats:
        """The probability of every label given all features of a row [R, A]: no score orders labels better."""
        precision = np.eye(self.loadings.shape[1]) + self.loadings.T @ self.loadings / NOISE**2
        covariance = np.linalg.inv(precision)
        latent = features @ self.loadings @ covariance / NOISE**2  # [R, Z]
        unknown = ((self.directions @ covariance) * self.directions).sum(1)
        deviation = np.sqrt(1 - EXPLAINED + EXPLAINED * unknown)
        above = (math.sqrt(EXPLAINED) * latent @ self.directions.T - self.thresholds) / deviation
        found: Floats = (1 - self.empty) * stats.norm.cdf(above)
        return found


def _unit(rows: Floats) -> Floats:
    found: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def _in_block(rows: Floats, block: NDArray[np.int64], blocks: int) -> Floats:
    """Rows [R, W] as the own part of rows over all blocks [R, blocks * W]."""
    placed = np.zeros((len(rows), blocks, rows.shape[1]))
    placed[np.arange(len(rows)), block] = rows
    return placed.reshape(len(rows), -1)
