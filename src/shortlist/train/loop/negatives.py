"""Negative sampling: items sampled by popularity to a power, with their sampling probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class NegativeSampler:
    """Samples items with given probabilities; it never waits for the device, so that steps can be recorded."""

    probability: Tensor  # [N]
    cumulative: Tensor  # [N] probability of all items up to and including this one

    @classmethod
    def of(cls, popularity: NDArray[Any], alpha: float, device: torch.device) -> "NegativeSampler":
        """Probabilities proportional to (events + 1) ** alpha; 0 is uniform; items without events are sampled too."""
        weight = (np.asarray(popularity, np.float64) + 1.0) ** alpha
        probability = weight / max(weight.sum(), 1.0)
        cumulative = np.minimum(probability.cumsum(), 1.0)
        return cls(*(torch.from_numpy(values).float().to(device) for values in (probability, cumulative)))

    def sample(self, shape: Sequence[int]) -> Tensor:
        """Items of this shape, with replacement, from the global generator of the device."""
        uniform = torch.rand(tuple(shape), device=self.cumulative.device)
        return torch.searchsorted(self.cumulative, uniform).clamp(max=len(self.cumulative) - 1)

    def log_expected(self, items: Tensor, samples: int) -> Tensor:
        """log of the expected count of each item in a sample of this size: the correction of a sampled softmax."""
        return torch.log(self.probability * samples)[items]
