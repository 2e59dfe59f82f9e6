"""YouTubeDNN: the mean of what was watched, through a tower, against the vectors of what to watch (Covington, 2016)."""

from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor, nn

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.models.sequence.sum_pooling import running_mean


@dataclass(frozen=True)
class YouTubeDNNConfig(ModelConfig):
    """Sizes of the tower; its last layer has the width of the items."""

    width: int = 64
    layers: tuple[int, ...] = (256, 128)
    dropout: float = 0.2


class YouTubeDNN(SequenceModel):
    """Items have two vectors: one as part of a history, one as something to show."""

    Config = YouTubeDNNConfig
    config: YouTubeDNNConfig

    def __init__(self, config: YouTubeDNNConfig) -> None:
        super().__init__(config, config.width)
        self.met = nn.Embedding(config.n_items, config.width)
        sizes = (config.width, *config.layers)
        steps = [[nn.Linear(a, b), nn.ReLU(), nn.Dropout(config.dropout)] for a, b in pairwise(sizes)]
        self.tower = nn.Sequential(
            *(part for step in steps for part in step), nn.Linear(sizes[-1], config.width)
        )
        self.drop = nn.Dropout(config.dropout)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        pooled = running_mean(self.met(history.clamp(min=0)), history >= 0)
        known: Tensor = self.tower(self.drop(pooled))
        return known
