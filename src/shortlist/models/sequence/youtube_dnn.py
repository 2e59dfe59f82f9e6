"""YouTubeDNN: the mean embedding of a history through an MLP, scored against item vectors (Covington et al., 2016)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from torch import Tensor, nn

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.models.sequence.sum_pooling import running_mean
from shortlist.settings import setting


@dataclass(frozen=True)
class YouTubeDNNConfig(ModelConfig):
    """Sizes of the user tower; its output has the width of the items."""

    width: int = setting(64, "Width of the item embeddings.", least=1, most=8192)
    layers: tuple[int, ...] = setting((256, 128), "Widths of the hidden layers.", least=1, most=65_536)
    dropout: float = setting(0.2, "Dropout probability.", least=0, most=0.95)


class YouTubeDNN(SequenceModel):
    """The mean embedding of a history through an MLP; items have other embeddings in histories than as candidates."""

    Config = YouTubeDNNConfig
    training_defaults: ClassVar[Mapping[str, Any]] = {"loss": "sampled", "negatives": 1000}
    config: YouTubeDNNConfig

    def __init__(self, config: YouTubeDNNConfig) -> None:
        super().__init__(config, config.width)
        self.history_items = nn.Embedding(config.n_items, config.width)
        sizes = (config.width, *config.layers)
        layers = [[nn.Linear(a, b), nn.ReLU(), nn.Dropout(config.dropout)] for a, b in pairwise(sizes)]
        self.tower = nn.Sequential(
            *(module for layer in layers for module in layer), nn.Linear(sizes[-1], config.width)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        pooled = running_mean(self.history_items(history.clamp(min=0)), history >= 0)
        vectors: Tensor = self.tower(self.dropout(pooled))
        return vectors
