"""A transformer block and its config."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ConfigError
from shortlist.models.model import ModelConfig
from shortlist.settings import setting


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Sizes of a transformer."""

    width: int = setting(64, "Width of the item embeddings.", least=1, most=8192)
    blocks: int = setting(2, "Number of transformer blocks.", least=1, most=64)
    heads: int = setting(2, "Number of attention heads; must divide width.", least=1, most=64)
    dropout: float = setting(0.2, "Dropout probability.", least=0, most=0.95)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise ConfigError(f"heads must divide width, got {self.heads} heads and width {self.width}")


class Block(nn.Module):
    """Pre-norm self-attention and a feed-forward network, each with a residual connection.

    A causal block attends to earlier positions; the other one attends to all positions marked in `mask` [U, 1, 1, K].
    """

    def __init__(self, width: int, heads: int, dropout: float, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(4 * width, width),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self._attend(self.norm(x), mask))
        x = x + self.dropout(self.mlp(x))
        return x

    def _attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        dropped = self.dropout.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropped, is_causal=self.causal
        )
        attended: Tensor = self.output(mixed.transpose(1, 2).flatten(2))  # [U, K, D]
        return attended
