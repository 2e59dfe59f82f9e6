"""DIN over the whole catalogue: attention of every item on the history, scored one by one (Zhou et al., 2018)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.models.model import Model, ModelConfig
from shortlist.models.nodes import ScorerConfig, make_scorer

CELLS = 1 << 18  # users times items scored at a time


@dataclass(frozen=True)
class DINConfig(ModelConfig):
    """Sizes of the attention and of the layers after it; the memory is the sum of the windows."""

    width: int = 24
    hidden: int = 36
    layers: tuple[int, ...] = (128, 64, 24)
    windows: tuple[int, ...] = (20, 20, 10, 10, 2, 2, 2, 1, 1, 1)  # oldest first


class DIN(Model):
    """The scorer that trees have at their nodes, with items for nodes: exact, and slow where items are many."""

    Config = DINConfig
    config: DINConfig

    def __init__(self, config: DINConfig) -> None:
        super().__init__(config)
        sizes = ScorerConfig(
            max(config.n_items, 1),
            width=config.width,
            hidden=config.hidden,
            layers=config.layers,
            windows=config.windows,
        )
        self.scorer = make_scorer(sizes, int(torch.randint(1 << 31, ())))

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = self.read(history)
        state = self.scorer.prepare(history)
        block = max(CELLS // max(len(history), 1), 1)
        rows = torch.arange(self.config.n_items, device=history.device)
        parts = [self.scorer.score_all(state, some) for some in torch.split(rows, block)]
        return torch.cat(parts, dim=1) if parts else history.new_zeros(len(history), 0, dtype=torch.float32)

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        return self.scorer.score(self.scorer.prepare(self.read(history)), rows)
