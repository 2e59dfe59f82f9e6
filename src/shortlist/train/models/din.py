"""DIN, taught to prefer the event that came to others that did not."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from shortlist.models.sequence.din import DIN, DINConfig
from shortlist.train.loop.losses import sampled_softmax_loss
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.sequence import mean_where
from shortlist.train.models.window import WindowTrainer


@dataclass(frozen=True)
class DINTrainer(WindowTrainer):
    """A sampled softmax: every window has `negatives` of its own. The memory is the sum of the windows."""

    title: ClassVar[str] = "din"

    negatives: int = 70
    learning_rate: float = 2e-3
    width: int = 24
    hidden: int = 36
    layers: tuple[int, ...] = (128, 64, 24)
    windows: tuple[int, ...] = (20, 20, 10, 10, 2, 2, 2, 1, 1, 1)

    def model(self, n_items: int) -> DIN:
        sizes = (self.width, self.hidden, self.layers, self.windows)
        return DIN(DINConfig(n_items, sum(self.windows), *sizes))

    def learn(self, *given: Any, **named: Any) -> Any:
        fitting = self.max_history == sum(self.windows)
        return super().learn(*given, **named) if fitting else self._fitting().learn(*given, **named)

    def _fitting(self) -> "DINTrainer":
        return replace(self, max_history=sum(self.windows))

    def loss_of(self, model: DIN, history: Tensor, wanted: Tensor, proposal: Proposal) -> Tensor:
        there, own = wanted >= 0, wanted.clamp(min=0)
        drawn = proposal.draw((len(own), self.negatives))
        with torch.autocast(history.device.type, torch.bfloat16, enabled=history.is_cuda):
            scores = model.scorer(history, torch.cat([own[:, None], drawn], dim=1)).float()  # [B, 1 + M]
        others = scores[:, 1:] - proposal.log_expected(drawn, self.negatives)
        others = others.masked_fill(drawn == own[:, None], -torch.inf)
        return mean_where(sampled_softmax_loss(scores[:, 0], others), there)
