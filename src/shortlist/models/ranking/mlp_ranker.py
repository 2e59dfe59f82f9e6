"""A network that ranks: who the candidate is, what the user met, what the catalogue and the nominators say."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp import FeatureMLP


@dataclass(frozen=True)
class MLPRankerConfig:
    """Sizes of tables and layers; `values` is how many codes each column of text has."""

    n_items: int
    n_features: int
    values: tuple[int, ...] = ()
    n_tags: int = 0
    width: int = 32
    value_width: int = 8
    hidden: tuple[int, ...] = (128, 64)
    max_history: int = 69
    dropout: float = 0.0


class MLPRanker(nn.Module):
    """Layers over [features; candidate; mean of the history; their product; its values; the mean of its tags]."""

    def __init__(self, config: MLPRankerConfig) -> None:
        super().__init__()
        self.config = config
        self.items = nn.Embedding(
            config.n_items + 1, config.width, padding_idx=config.n_items
        )  # the last is nothing
        self.values = nn.ModuleList(nn.Embedding(size, config.value_width) for size in config.values)
        self.tags = nn.Embedding(config.n_tags + 1, config.value_width, padding_idx=0)
        told = 3 * config.width + (len(config.values) + 1) * config.value_width
        self.layers = FeatureMLP([config.n_features + told, *config.hidden], config.dropout)
        for table in (self.items, *self.values, self.tags):
            nn.init.normal_(table.weight, std=0.1)
        with torch.no_grad():
            self.items.weight[-1] = 0
            self.tags.weight[0] = 0

    def forward(self, history: Tensor, rows: Tensor, features: Tensor, codes: Tensor, tags: Tensor) -> Tensor:
        """Scores [B, K] of rows [B, K] with their features [B, K, F], codes [B, K, C] and tags [B, K, T], -1 = none."""
        own = self.items(self._known(rows))  # [B, K, D]
        past = self._past(history)[:, None].expand(own.shape)
        values = [table(codes[..., at]) for at, table in enumerate(self.values)]
        carried = self.tags(tags + 1).sum(2) / (tags >= 0).sum(2, keepdim=True).clamp(min=1)
        scores: Tensor = self.layers(torch.cat([features, own, past, own * past, *values, carried], dim=-1))
        return scores

    def _past(self, history: Tensor) -> Tensor:
        """The mean of the last items [B, D], 0 where there are none."""
        last = self._known(history[:, -self.config.max_history :])
        total: Tensor = self.items(last).sum(1)
        return total / (last < self.config.n_items).sum(1, keepdim=True).clamp(min=1)

    def _known(self, rows: Tensor) -> Tensor:
        return torch.where((rows >= 0) & (rows < self.config.n_items), rows, self.config.n_items)

    @torch.no_grad()
    def scale(self, features: Tensor) -> None:
        """Scale features by those of the candidates of training [n, F]."""
        if len(features) > 1:
            count = self.config.n_features
            self.layers.mean[:count] = features.mean(0)
            self.layers.scale[:count] = features.std(0).clamp(min=1e-3)

    def settings(self) -> dict[str, Any]:
        """What `build` needs beside the weights."""
        return asdict(self.config)

    @classmethod
    def build(cls, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Self:
        """The network back from its settings and weights, in eval."""
        plain: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in settings.items()
        }
        try:
            model = cls(MLPRankerConfig(**plain))
            model.load_state_dict(dict(weights))
        except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
            said = " ".join(str(error).split())
            raise ArtifactError(f"mlp-ranker: settings and weights do not fit ({said})") from error
        return model.eval()
