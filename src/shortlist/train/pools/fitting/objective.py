"""What a mixture is trained on: the loss of a batch."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from shortlist.models.mixture import PoolMixture, balance_loss
from shortlist.train.pools.fitting.settings import PoolTraining


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one step."""

    contexts: Tensor  # [B, d]
    items: Tensor  # [B]
    rewards: Tensor  # [B]
    weights: Tensor | None = None  # [B]

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean over the examples."""
        return values.mean() if self.weights is None else (values * self.weights).sum() / self.weights.sum()


class Objective(nn.Module):
    """The loss of batches under some settings; it keeps the mean responsibilities of items."""

    of_items: Tensor

    def __init__(self, model: PoolMixture, training: PoolTraining) -> None:
        super().__init__()
        self.model, self.settings = model, training
        size = (model.n_items, model.n_experts)
        means = torch.full(size, 1 / model.n_experts, device=model.log_sigma.device)
        self.register_buffer("of_items", means)  # [A, N], a checkpoint holds it
        self.entropy = torch.zeros((), device=model.log_sigma.device)  # weight of the gate's entropy

    def loss(self, batch: Batch) -> Tensor:
        """The objective, the balance of the nominators and the entropy of the gate."""
        log_p: Tensor = self.model.gate(batch.contexts, batch.items)  # [B, N]
        loss = self.value(batch, log_p, learning=True)
        if self.settings.balance:
            loss = loss + self.settings.balance * balance_loss(log_p)
        if self.settings.entropy:
            loss = loss - self.entropy * torch.special.entr(log_p.exp()).sum(-1).mean()
        return loss

    def value(self, batch: Batch, log_p: Tensor | None = None, learning: bool = False) -> Tensor:
        """The objective alone, smaller is better."""
        model = self.model
        log_p = model.gate(batch.contexts, batch.items) if log_p is None else log_p
        scores = model.experts(batch.contexts, batch.items)
        if self.settings.objective == "mean-squares":
            mean = (log_p.exp() * model.linked(scores)).sum(-1)
            return batch.mean((batch.rewards - mean) ** 2)
        log_joint = log_p + model.log_density(scores, batch.rewards)
        if self.settings.objective == "likelihood":
            return -batch.mean(log_joint.logsumexp(-1))
        if learning:
            self._remember(batch.items, log_joint.detach().softmax(-1))
        shares = self._shares(batch.items)
        # Outside a pool the log weight is -inf and the share 0; their product must be 0.
        return -batch.mean((shares * log_joint.masked_fill(log_p == -torch.inf, 0.0)).sum(-1))

    def _shares(self, items: Tensor) -> Tensor:
        """The responsibilities of the items [B, N], none outside their pools."""
        shares = self.of_items[items]
        if self.model.gate.hard:
            shares = shares * self.model.gate.pools[items]
        return shares / shares.sum(-1, keepdim=True)

    @torch.no_grad()
    def _remember(self, items: Tensor, responsibilities: Tensor) -> None:
        """Move the mean responsibilities of the items of a batch towards those in it."""
        total = torch.zeros_like(self.of_items).index_add_(0, items, responsibilities.to(self.of_items.dtype))
        count = self.of_items.new_zeros(len(self.of_items)).index_add_(
            0, items, torch.ones_like(items, dtype=self.of_items.dtype)
        )[:, None]
        new = torch.where(count > 0, total / count.clamp(min=1), self.of_items)
        self.of_items.lerp_(new, 1 - self.settings.item_memory)
