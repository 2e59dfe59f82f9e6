"""DIN over the whole catalogue: attention of every item on the history (Zhou et al., 2018)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.models.model import Model, ModelConfig
from shortlist.models.nodes import ScorerConfig, ScorerSizes, make_scorer, values_of
from shortlist.settings import setting

CELLS = 1 << 18  # users times items scored at a time


@dataclass(frozen=True)
class DINConfig(ScorerSizes, ModelConfig):
    """Sizes of the attention and of the layers after it; `max_history` is the sum of the windows."""

    max_history: int = setting(69, derived=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_history", sum(self.windows))
        super().__post_init__()


class DIN(Model):
    """Attention of every item on the history, scored one by one: exact, and slow for large catalogues."""

    Config = DINConfig
    training_defaults: ClassVar[Mapping[str, Any]] = {"learning_rate": 2e-3}
    config: DINConfig

    def __init__(self, config: DINConfig) -> None:
        super().__init__(config)
        sizes = ScorerConfig(max(config.n_items, 1), **values_of(config, ScorerSizes))
        self.scorer = make_scorer(sizes, int(torch.randint(1 << 31, (), device="cpu")))

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = self.read(history)
        state = self.scorer.prepare(history)
        block = max(CELLS // max(len(history), 1), 1)
        rows = torch.arange(self.config.n_items, device=history.device)
        parts = [self.scorer.score_all(state, some) for some in torch.split(rows, block)]
        return torch.cat(parts, dim=1) if parts else history.new_zeros(len(history), 0, dtype=torch.float32)

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        return self.scorer.score(self.scorer.prepare(self.read(history)), rows)
