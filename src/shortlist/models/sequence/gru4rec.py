"""GRU4Rec: a recurrent network reads the history and foretells what follows it (Hidasi et al., 2016)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last


@dataclass(frozen=True)
class GRU4RecConfig(ModelConfig):
    """Sizes of the network; its state has `hidden` numbers in each of `layers` layers."""

    width: int = 64
    hidden: int = 128
    layers: int = 1
    dropout: float = 0.2


class GRU4Rec(SequenceModel):
    """The state after each item, brought to the width of the items; a mark that stands for "nothing yet" goes first."""

    Config = GRU4RecConfig
    config: GRU4RecConfig

    def __init__(self, config: GRU4RecConfig) -> None:
        super().__init__(config, config.width)
        self.begin = nn.Parameter(torch.zeros(config.width))
        self.cell = nn.GRU(config.width, config.hidden, config.layers, batch_first=True)
        self.land = nn.Linear(config.hidden, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        met = self.items(history.clamp(min=0)) * self.config.width**0.5
        begin = self.begin.expand(len(history), 1, -1)
        with torch.autocast(met.device.type, enabled=False):  # the fused cell has no bfloat16
            states, _ = self.cell(self.drop(torch.cat([begin, met], dim=1)).float())  # [U, K + 1, hidden]
        known: Tensor = self.norm(self.drop(self.land(states)))
        return known
