"""What users do with a slate: they look from the top, some give up, and they take what they like."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PATIENCE = 0.85  # the chance to look one place further


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What came back for slates [B, K]: the places looked at, those taken, and the truth behind it."""

    examined: Tensor  # [B, K] bool
    clicks: Tensor  # [B, K] bool, only where examined
    affinity: Tensor  # [B, K] the chance of a click where examined; 0 for an empty place


def draw(affinity: NDArray[np.float64], seeds: NDArray[np.int64], seed: int) -> Outcomes:
    """Examine with chance PATIENCE ** place, then take with chance `affinity` [B, K].

    Every chance hangs on the request's own seed [B]: an answer does not depend on the batch it came in.
    """
    width = affinity.shape[1]
    looking = PATIENCE ** np.arange(width)  # [K]
    # One draw decides how far a user looks: whoever looks at a place has looked at all before it.
    examined = looking > chances(seeds, width=1, salt=2 * seed)
    clicks = examined & (chances(seeds, width, salt=2 * seed + 1) < affinity)
    return Outcomes(torch.from_numpy(examined), torch.from_numpy(clicks), torch.from_numpy(affinity))


def chances(seeds: NDArray[np.int64], width: int, salt: int) -> NDArray[np.float64]:
    """Uniform numbers in [0, 1) that follow from (seed, place, salt) alone [B, width]."""
    salted = _mix(np.full(1, salt, np.int64).astype(np.uint64))
    rows = _mix(seeds.astype(np.uint64) + salted)[:, None]
    bits = _mix(rows + np.arange(width).astype(np.uint64))
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53, np.float64)


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scatter 64 bits (the splitmix64 finaliser of Steele, Lea and Flood, 2014)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
