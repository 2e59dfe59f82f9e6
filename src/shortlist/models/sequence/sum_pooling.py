"""SumPooling: the mean of the item embeddings of a history, through a small MLP; order does not matter."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.settings import setting


@dataclass(frozen=True)
class SumPoolingConfig(ModelConfig):
    """Sizes of the MLP."""

    width: int = setting(64, "Width of the item embeddings.", least=1, most=8192)
    hidden: int = setting(128, "Width of the hidden layer.", least=1, most=65_536)
    dropout: float = setting(0.2, "Dropout probability.", least=0, most=0.95)


class SumPooling(SequenceModel):
    """The mean item embedding of a history through a small MLP; order does not matter."""

    Config = SumPoolingConfig
    config: SumPoolingConfig

    def __init__(self, config: SumPoolingConfig) -> None:
        super().__init__(config, config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, config.hidden),
            nn.GELU(),
            nn.Dropout(config.dropout),
            nn.Linear(config.hidden, config.width),
        )
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        pooled = running_mean(self.items(history.clamp(min=0)) * self.config.width**0.5, history >= 0)
        vectors: Tensor = self.norm(pooled + self.mlp(self.dropout(pooled)))
        return vectors


def running_mean(x: Tensor, valid: Tensor) -> Tensor:
    """The mean of the valid entries before each position and after the last [U, K + 1, D]; 0 before the first."""
    x = x * valid[..., None]
    total = torch.cat([x.new_zeros(len(x), 1, x.shape[2]), x.cumsum(1)], dim=1)
    count = torch.cat([valid.new_zeros(len(valid), 1), valid], dim=1).cumsum(1).clamp(min=1)
    return total / count[..., None]
