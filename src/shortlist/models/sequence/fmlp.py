"""FMLP-Rec: learnable filters in the frequency domain replace self-attention (Zhou et al., 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.model import ModelConfig, VectorModel
from shortlist.models.nodes.scorer import last
from shortlist.settings import setting


@dataclass(frozen=True)
class FMLPConfig(ModelConfig):
    """Sizes of the filters; they are as long as `max_history`."""

    width: int = setting(64, "Width of the item embeddings.", least=1, most=8192)
    blocks: int = setting(2, "Number of filter blocks.", least=1, most=64)
    dropout: float = setting(0.3, "Dropout probability.", least=0, most=0.95)


class FMLP(VectorModel):
    """Learnable filters over the frequencies of a history; the last position is the user vector."""

    Config = FMLPConfig
    config: FMLPConfig

    def __init__(self, config: FMLPConfig) -> None:
        super().__init__(config)
        self.items = nn.Embedding(config.n_items, config.width)
        self.empty_history = nn.Parameter(torch.zeros(config.width))  # user vector of an empty history
        self.positions = nn.Parameter(torch.empty(config.max_history, config.width))
        self.norm = nn.LayerNorm(config.width)
        self.blocks = nn.ModuleList(
            FilterBlock(config.max_history, config.width, config.dropout) for _ in range(config.blocks)
        )
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.items.weight, std=config.width**-0.5)
        nn.init.normal_(self.positions, std=0.02)

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        if not len(history) or not self.config.n_items:  # FFT needs a row, the embedding needs an item
            return self.empty_history.expand(len(history), -1)
        history = last(self.read(history), self.config.max_history)  # [U, max_history]
        valid = (history >= 0)[..., None]
        x = self.items(history.clamp(min=0)) * self.config.width**0.5 + self.positions
        x = self.dropout(self.norm(x)) * valid
        for block in self.blocks:
            x = block(x) * valid
        return torch.where(valid[:, -1], x[:, -1], self.empty_history.to(x.dtype))

    def vectors(self) -> Tensor:
        return self.items.weight


class FilterBlock(nn.Module):
    """A learnable filter over the frequencies of every channel, then an MLP; both with residual connections."""

    def __init__(self, length: int, width: int, dropout: float) -> None:
        super().__init__()
        self.length = length
        self.filters = nn.Parameter(torch.empty(length // 2 + 1, width, 2))  # real and imaginary part
        self.filter_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )
        self.mlp_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.filters, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):  # FFT does not support bfloat16
            spectrum = torch.fft.rfft(x.float(), dim=1, norm="ortho") * torch.view_as_complex(self.filters)
            filtered = torch.fft.irfft(spectrum, n=self.length, dim=1, norm="ortho")
        x = self.filter_norm(x + self.dropout(filtered))
        output: Tensor = self.mlp_norm(x + self.mlp(x))
        return output
