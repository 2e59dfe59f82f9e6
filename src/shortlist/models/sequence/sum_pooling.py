"""SumPooling: the mean of what was met, through a small network; the order of a history does not matter."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last


@dataclass(frozen=True)
class SumPoolingConfig(ModelConfig):
    """Sizes of the network."""

    width: int = 64
    hidden: int = 128
    dropout: float = 0.2


class SumPooling(SequenceModel):
    """User vectors from the mean of the vectors of the items met, which are also what items are scored by."""

    Config = SumPoolingConfig
    config: SumPoolingConfig

    def __init__(self, config: SumPoolingConfig) -> None:
        super().__init__(config, config.width)
        self.think = nn.Sequential(
            nn.Linear(config.width, config.hidden),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.hidden, config.width),
        )
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        pooled = running_mean(self.items(history.clamp(min=0)) * self.config.width**0.5, history >= 0)
        known: Tensor = self.norm(pooled + self.think(self.drop(pooled)))
        return known


def running_mean(x: Tensor, there: Tensor) -> Tensor:
    """The mean of what stands before each place and after the last [U, K + 1, D]; 0 before the first."""
    x = x * there[..., None]
    total = torch.cat([x.new_zeros(len(x), 1, x.shape[2]), x.cumsum(1)], dim=1)
    count = torch.cat([there.new_zeros(len(there), 1), there], dim=1).cumsum(1).clamp(min=1)
    return total / count[..., None]
