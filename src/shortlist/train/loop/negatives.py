"""Items to compare with: drawn by how often they were met, to a power, and with what is known of the draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Proposal:
    """Draws items with probability `share`; works inside recorded steps: nothing waits for the device."""

    share: Tensor  # [N]
    below: Tensor  # [N] probability of all items up to and with this one

    @classmethod
    def of(cls, popularity: NDArray[Any], alpha: float, device: torch.device) -> "Proposal":
        """Shares by (events + 1) ** alpha: 0 is the same for all; an item without events can be drawn, too."""
        weight = (np.asarray(popularity, np.float64) + 1.0) ** alpha
        share = weight / max(weight.sum(), 1.0)
        below = np.minimum(share.cumsum(), 1.0)
        return cls(torch.from_numpy(share).float().to(device), torch.from_numpy(below).float().to(device))

    def draw(self, shape: Sequence[int]) -> Tensor:
        """So many items, with replacement, by the global generator of the device."""
        chance = torch.rand(tuple(shape), device=self.below.device)
        return torch.searchsorted(self.below, chance).clamp(max=len(self.below) - 1)

    def log_expected(self, items: Tensor, draws: int) -> Tensor:
        """log of how often each item is expected among so many draws: what a sampled softmax takes off its logit."""
        return torch.log(self.share * draws)[items]
