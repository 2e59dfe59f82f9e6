"""The loss of every cell on the same rows for all learning rates."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.lab.experiments.components.pools.cells import CellModel, Parameters
from shortlist.lab.experiments.components.pools.methods import (
    BERNOULLI,
    ITEM_LIKELIHOOD,
    MEAN_SQUARES,
    Method,
)

MEMORY = 0.9  # share of an item's mean responsibilities that a batch keeps


@dataclass(frozen=True, eq=False)
class CellObjective:
    """What a system is trained on; with a fixed gate by squared error, of the mixture mean or of each expert."""

    method: Method
    model: CellModel
    sigma: Tensor  # [] as it is at this step
    of_items: Tensor  # [S, A, L, N] mean responsibilities

    @classmethod
    def of(
        cls, method: Method, model: CellModel, deviation: float, parameters: Parameters
    ) -> "CellObjective":
        """With the usual sigma and equal responsibilities."""
        seeds, arms, rates = parameters["items"].shape[:3]
        shape = (seeds, arms, rates, model.n_experts)
        return cls(
            method,
            model,
            model.mask.new_tensor(method.sigma * deviation),
            model.mask.new_full(shape, 1 / model.n_experts),
        )

    def loss(self, parameters: Parameters, x: Tensor, rewards: Tensor) -> Tensor:
        """The loss of every cell [S, L] on rows x [S, A, M, D] of every item with rewards [S, A, M]."""
        scores = self.model.predictions(parameters, x)  # [S, A, M, L, N]
        rewards = rewards[..., None]  # [S, A, M, 1]
        if self.model.each:
            return (rewards[..., None] - scores).square().mean((1, 2, 4))
        if self.model.weights is not None:
            mean = (self.model.weights[:, :, None] * scores).sum(-1)
            return (rewards - mean).square().mean((1, 2))
        log_p = self.model.log_gate(parameters, x)
        loss = self._value(log_p, scores, rewards).mean((1, 2))
        return loss + self.method.balance * balance(log_p) if self.method.balance else loss

    def _value(self, log_p: Tensor, scores: Tensor, rewards: Tensor) -> Tensor:
        """The loss of every example [S, A, M, L]."""
        if self.method.objective == MEAN_SQUARES:
            return (rewards - (log_p.exp() * scores).sum(-1)).square()
        target = rewards[..., None].expand(scores.shape)
        if self.method.objective == BERNOULLI:
            log_joint = log_p - F.binary_cross_entropy_with_logits(scores, target, reduction="none")
        else:
            log_joint = log_p - (target - scores).square() / (2 * self.sigma.square())
        if self.method.objective != ITEM_LIKELIHOOD:
            return -log_joint.logsumexp(-1)
        seen = log_joint.detach().softmax(-1).mean(2)
        self.of_items.lerp_(seen, 1 - MEMORY)
        return -(self.of_items[:, :, None].detach().clone() * log_joint).sum(-1)


def balance(log_p: Tensor) -> Tensor:
    """`balance_loss` of every cell [S, L] for log weights [S, A, M, L, N]."""
    n_experts = log_p.shape[-1]
    experts = torch.arange(n_experts, device=log_p.device)
    largest = (log_p.argmax(-1, keepdim=True) == experts).to(log_p).mean((1, 2))
    loss: Tensor = (log_p.exp().mean((1, 2)) * largest).sum(-1)
    return n_experts * loss


def effective(weights: Tensor) -> Tensor:
    """exp of the entropy of the mean weights of experts, from weights [S, A, L, N] to [S, L]."""
    found: Tensor = torch.special.entr(weights.mean(1)).sum(-1)
    return found.exp()
