"""A small feed-forward network over features that are scaled by what training saw."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

CLIP = 5.0  # a feature this many deviations off says no more than "far off"


class FeatureMLP(nn.Module):
    """Features [..., F] -> one score [...]."""

    mean: Tensor  # [F]
    scale: Tensor  # [F]

    def __init__(self, sizes: Sequence[int], dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(sizes[0]))
        self.register_buffer("scale", torch.ones(sizes[0]))
        steps = zip(sizes, [*sizes[1:], 1], strict=True)
        self.layers = nn.ModuleList(nn.Linear(wide, next_wide) for wide, next_wide in steps)
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def of(cls, weights: Mapping[str, Tensor]) -> Self:
        """The network back from its weights."""
        count = sum(name.endswith(".weight") for name in weights)
        network = cls([weights[f"layers.{number}.weight"].shape[1] for number in range(count)])
        network.load_state_dict(dict(weights))
        return network.eval()

    def forward(self, features: Tensor) -> Tensor:
        x = ((features - self.mean) / self.scale).clamp(-CLIP, CLIP)
        for layer in self.layers[:-1]:
            x = self.dropout(F.gelu(layer(x)))
        scores: Tensor = self.layers[-1](x).squeeze(-1)
        return scores
