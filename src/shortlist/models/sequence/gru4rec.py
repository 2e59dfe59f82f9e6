"""GRU4Rec: a recurrent network over the history predicts the next item (Hidasi et al., 2016)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.settings import setting


@dataclass(frozen=True)
class GRU4RecConfig(ModelConfig):
    """Sizes of the recurrent network."""

    width: int = setting(64, "Width of the item embeddings.", least=1, most=8192)
    hidden: int = setting(128, "Width of the recurrent state.", least=1, most=65_536)
    layers: int = setting(1, "Number of recurrent layers.", least=1, most=64)
    dropout: float = setting(0.2, "Dropout probability.", least=0, most=0.95)


class GRU4Rec(SequenceModel):
    """A recurrent network over the history predicts the next item; a sequence begins with a start token."""

    Config = GRU4RecConfig
    config: GRU4RecConfig

    def __init__(self, config: GRU4RecConfig) -> None:
        super().__init__(config, config.width)
        self.start_token = nn.Parameter(torch.zeros(config.width))
        self.gru = nn.GRU(config.width, config.hidden, config.layers, batch_first=True)
        self.output = nn.Linear(config.hidden, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        items = self.items(history.clamp(min=0)) * self.config.width**0.5
        start = self.start_token.expand(len(history), 1, -1)
        with torch.autocast(items.device.type, enabled=False):  # the fused GRU does not support bfloat16
            states, _ = self.gru(self.dropout(torch.cat([start, items], dim=1)).float())  # [U, K + 1, hidden]
        vectors: Tensor = self.norm(self.dropout(self.output(states)))
        return vectors
