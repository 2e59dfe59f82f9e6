"""MLP ranker: a network over item embeddings, the mean of the history, ranking features and catalogue columns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from shortlist.errors import ArtifactError, ConfigError
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.stored_weights import with_weights
from shortlist.settings import check_fields, setting


@dataclass(frozen=True)
class MLPRankerConfig:
    """Sizes of embedding tables and layers; `values` is the number of codes of each text column."""

    n_items: int = setting(0, "Number of items in the catalogue.", least=0, derived=True)
    n_features: int = setting(0, "Number of ranking features.", least=0, derived=True)
    values: tuple[int, ...] = setting((), "Number of codes of each text column.", least=0, derived=True)
    n_tags: int = setting(0, "Number of tags.", least=0, derived=True)
    width: int = setting(32, "Width of the item embeddings.", least=1, most=8192)
    value_width: int = setting(8, "Width of the embeddings of text values and tags.", least=1, most=8192)
    hidden: tuple[int, ...] = setting((128, 64), "Widths of the hidden layers.", least=1, most=65_536)
    max_history: int = setting(69, "Number of last items of a history that are read.", least=1, most=10_000)
    dropout: float = setting(0.1, "Dropout rate.", least=0, most=0.95)

    def __post_init__(self) -> None:
        check_fields(self, "mlp-ranker")


class MLPRanker(nn.Module):
    """MLP over [features; candidate; mean of the history; their product; text values; mean of the tags]."""

    def __init__(self, config: MLPRankerConfig) -> None:
        super().__init__()
        self.config = config
        self.items = nn.Embedding(
            config.n_items + 1, config.width, padding_idx=config.n_items
        )  # last: padding
        self.values = nn.ModuleList(nn.Embedding(size, config.value_width) for size in config.values)
        self.tags = nn.Embedding(config.n_tags + 1, config.value_width, padding_idx=0)
        embedded = 3 * config.width + (len(config.values) + 1) * config.value_width
        self.layers = FeatureMLP([config.n_features + embedded, *config.hidden], config.dropout)
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
        mean_tag = self.tags(tags + 1).sum(2) / (tags >= 0).sum(2, keepdim=True).clamp(min=1)
        scores: Tensor = self.layers(torch.cat([features, own, past, own * past, *values, mean_tag], dim=-1))
        return scores

    def _past(self, history: Tensor) -> Tensor:
        """Mean embedding of the last items [B, D], 0 for an empty history."""
        last = self._known(history[:, -self.config.max_history :])
        total: Tensor = self.items(last).sum(1)
        return total / (last < self.config.n_items).sum(1, keepdim=True).clamp(min=1)

    def _known(self, rows: Tensor) -> Tensor:
        return torch.where((rows >= 0) & (rows < self.config.n_items), rows, self.config.n_items)

    def fit_scale(self, features: Tensor) -> None:
        """Standardise the features by those of training candidates [n, F]."""
        self.layers.fit_scale(features)

    def settings(self) -> dict[str, Any]:
        """The configuration, for `build`."""
        return asdict(self.config)

    @classmethod
    def build(cls, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Self:
        """Rebuild the network from its settings and weights, in eval mode."""
        plain: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in settings.items()
        }
        try:
            config = MLPRankerConfig(**plain)
            return with_weights(lambda: cls(config), weights)
        except (TypeError, ValueError, ArithmeticError, RuntimeError, ConfigError) as error:
            reason = " ".join(str(error).split())
            raise ArtifactError(f"mlp-ranker: settings and weights do not fit ({reason})") from error
