"""FMLP-Rec: learnable filters over the frequencies of a history take the place of attention (Zhou et al., 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig, VectorModel
from shortlist.models.nodes.scorer import last


@dataclass(frozen=True)
class FMLPConfig(ModelConfig):
    """Sizes of the filters; they are as long as the memory."""

    width: int = 64
    blocks: int = 2
    dropout: float = 0.3


class FMLP(VectorModel):
    """A history, filled up in front to the whole memory with nothing, is filtered; its last place is the user."""

    Config = FMLPConfig
    config: FMLPConfig

    def __init__(self, config: FMLPConfig) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, config.width)
        self.begin = nn.Parameter(torch.zeros(config.width))  # a user of whom nothing is known yet
        self.place = nn.Parameter(torch.empty(config.max_history, config.width))
        self.start = nn.LayerNorm(config.width)
        self.blocks = nn.ModuleList(
            FilterBlock(config.max_history, config.width, config.dropout) for _ in range(config.blocks)
        )
        self.drop = nn.Dropout(config.dropout)
        nn.init.normal_(self.items.weight, std=config.width**-0.5)
        nn.init.normal_(self.place, std=0.02)

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        if not len(history) or not self.config.n_items:  # no frequencies of nothing, no vectors to look up
            return self.begin.expand(len(history), -1)
        history = last(self.read(history), self.config.max_history)  # [U, memory]
        there = (history >= 0)[..., None]
        x = self.items(history.clamp(min=0)) * self.config.width**0.5 + self.place
        x = self.drop(self.start(x)) * there
        for block in self.blocks:
            x = block(x) * there
        return torch.where(there[:, -1], x[:, -1], self.begin.to(x.dtype))

    def vectors(self) -> Tensor:
        return self.items.weight


class FilterBlock(nn.Module):
    """Every frequency of every channel is weighed, then a small network; both are added to what was there."""

    def __init__(self, length: int, width: int, dropout: float) -> None:
        super().__init__()
        self.length = length
        self.weigh = nn.Parameter(torch.empty(length // 2 + 1, width, 2))  # real and imaginary part
        self.after = nn.LayerNorm(width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )
        self.end = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        nn.init.normal_(self.weigh, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # there are no frequencies in bfloat16
            tones = torch.fft.rfft(x.float(), dim=1, norm="ortho") * torch.view_as_complex(self.weigh)
            heard = torch.fft.irfft(tones, n=self.length, dim=1, norm="ortho")
        x = self.after(x + self.drop(heard))
        kept: Tensor = self.end(x + self.think(x))
        return kept
