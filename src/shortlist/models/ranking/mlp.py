"""A small feed-forward network over features, standardised by the training data."""

from collections.abc import Mapping, Sequence
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.models.stored_weights import with_weights

CLIP = 5.0  # largest standardised feature


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
        """Rebuild the network from its weights."""
        count = sum(name.endswith(".weight") for name in weights)
        sizes = [weights[f"layers.{number}.weight"].shape[1] for number in range(count)]
        return with_weights(lambda: cls(sizes), weights)

    @torch.no_grad()
    def fit_scale(self, features: Tensor) -> None:
        """Standardise the first F inputs by the mean and standard deviation of training features [n, F].

        A feature that is NaN does not exist, and does not count.
        """
        if len(features) > 1:
            count = features.shape[1]
            mean = features.nanmean(0)
            known = (~features.isnan()).sum(0)
            variance = (features - mean).square_().nansum(0) / (known - 1).clamp(min=1)
            self.mean[:count] = mean.nan_to_num(0.0)
            self.scale[:count] = variance.sqrt().clamp(min=1e-3)

    def forward(self, features: Tensor) -> Tensor:
        x = ((features - self.mean) / self.scale).clamp(-CLIP, CLIP)
        x = torch.nan_to_num(x, nan=0.0)  # a feature that does not exist counts as its mean
        for layer in self.layers[:-1]:
            x = self.dropout(F.gelu(layer(x)))
        scores: Tensor = self.layers[-1](x).squeeze(-1)
        return scores
