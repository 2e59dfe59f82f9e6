"""The trainer of DIN: a sampled softmax with negatives for every example."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.nodes.blocked_attention import BLOCK
from shortlist.models.sequence.din import DIN
from shortlist.settings import setting
from shortlist.train.loop.losses import sampled_softmax_loss
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.models.sequence import mean_where
from shortlist.train.models.window import LossOf, WindowTrainer

FLOAT = 4  # bytes


@dataclass(frozen=True)
class DINTrainer(WindowTrainer):
    """Every example has its own negatives, because DIN scores (history, item) pairs."""

    negatives: int = setting(70, "Sampled negatives of every example.", least=1, most=10_000_000)
    alpha: float = setting(
        0.5, "Negatives are sampled by popularity to this power; 0 is uniform.", least=0, most=1000
    )

    def check(self, events: Interactions) -> None:
        """A sampled softmax fits into memory for any catalogue."""

    def batch_values(self, events: Interactions) -> int:
        """Of every example, of its history and its items; of a position, its first layer; of a thread, its brackets."""
        sizes, longest, items = self.config, self._longest(events) if len(events) else 0, 1 + self.negatives
        history = longest * (sizes.width + sizes.hidden + sizes.layers[0])
        pair = 1 + sizes.width + sizes.hidden + longest + 2 * sum(sizes.layers)  # before and after the norm
        examples = self.batch_size * (history + items * pair)
        brackets = min(
            self.batch_size * items * longest * sizes.hidden, torch.get_num_threads() * BLOCK // FLOAT
        )
        brackets += (
            brackets * sizes.width // items
        )  # and a gradient of every history vector, for every hidden value
        return int(examples + longest * sizes.width * sizes.layers[0] + brackets)

    def loss_function(self, model: DIN, events: Interactions, device: torch.device) -> LossOf:
        sampler = NegativeSampler.of(events.popularity, self.alpha, device)

        def loss_of(history: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
            positive = target.clamp(min=0)
            sampled = sampler.sample((len(positive), self.negatives))
            rows = torch.cat([positive[:, None], sampled], dim=1)
            with torch.autocast(history.device.type, torch.bfloat16, enabled=history.is_cuda):
                scores = model.scorer(history, rows).float()  # [B, 1 + M]
            negatives = scores[:, 1:] - sampler.log_expected(sampled, self.negatives)
            negatives = negatives.masked_fill(sampled == positive[:, None], -torch.inf)
            return mean_where(sampled_softmax_loss(scores[:, 0], negatives), target >= 0, weights)

        return loss_of
