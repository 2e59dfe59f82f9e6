"""User responses to a slate: a cascade of examination from the top, then clicks."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PATIENCE = 0.85  # probability of examining the next position


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Examined positions, clicks and true click probabilities of slates [B, K]."""

    examined: Tensor  # [B, K] bool
    clicks: Tensor  # [B, K] bool, only where examined
    affinity: Tensor  # [B, K] click probability if examined; 0 for an empty position


def sample_outcomes(affinity: NDArray[np.float64], seeds: NDArray[np.int64], seed: int) -> Outcomes:
    """Examine position p with probability PATIENCE ** p, then click with probability `affinity` [B, K].

    All randomness comes from the seed of each request [B], so a response does not depend on its batch.
    """
    width = affinity.shape[1]
    examination = PATIENCE ** np.arange(width)  # [K]
    # One uniform number per request: a user who examines a position has examined all before it.
    examined = examination > uniforms(seeds, width=1, salt=2 * seed)
    clicks = examined & (uniforms(seeds, width, salt=2 * seed + 1) < affinity)
    return Outcomes(torch.from_numpy(examined), torch.from_numpy(clicks), torch.from_numpy(affinity))


def uniforms(seeds: NDArray[np.int64], width: int, salt: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) that depend only on (seed, position, salt) [B, width]."""
    salted = _mix(np.full(1, salt, np.int64).astype(np.uint64))
    rows = _mix(seeds.astype(np.uint64) + salted)[:, None]
    bits = _mix(rows + np.arange(width).astype(np.uint64))
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, np.float64)


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser (Steele, Lea and Flood, 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
