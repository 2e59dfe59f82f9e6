"""A block of a transformer: look around, then think."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.model import ModelConfig


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Sizes of a transformer; `heads` must divide `width`."""

    width: int = 64
    blocks: int = 2
    heads: int = 2
    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise ConfigError(f"heads must divide width, got {self.heads} heads and width {self.width}")


class Block(nn.Module):
    """Attention over a sequence and a small network, both added to what was there.

    A causal one sees what came before alone; the other sees all places that `there` [U, 1, 1, K] marks.
    """

    def __init__(self, width: int, heads: int, dropout: float, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.gather = nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * width, width),
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, there: Tensor | None = None) -> Tensor:
        x = x + self.drop(self._look(self.before(x), there))
        x = x + self.drop(self.think(x))
        return x

    def _look(self, x: Tensor, there: Tensor | None) -> Tensor:
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dropped = self.drop.p if self.training else 0.0
        seen = F.scaled_dot_product_attention(
            query, key, value, attn_mask=there, dropout_p=dropped, is_causal=self.causal
        )
        mixed: Tensor = self.gather(seen.transpose(1, 2).flatten(2))  # [U, K, D]
        return mixed
