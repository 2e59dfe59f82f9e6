"""The same training as a plain PyTorch loop: dense gradients, and an optimizer that updates whole tables."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shortlist.models.collaborative.ccf import CCF
from shortlist.train.loop.offers import mixed_negatives, offer_softmax_loss
from shortlist.train.models.ccf import MOMENTUM, CCFTrainer, OfferBatches

PLAIN = "adagrad"  # the same rule as that of our tables, with torch's defaults
OPTIMIZERS: Mapping[str, Callable[..., torch.optim.Optimizer]] = {
    PLAIN: torch.optim.Adagrad,
    "adagrad-fused": partial(torch.optim.Adagrad, fused=True),
    "adam": torch.optim.Adam,
    "adam-fused": partial(torch.optim.Adam, fused=True),
}


class PlainLoop:
    """Two dense tables with the weights of a CCF model without features; every copy of a candidate is scored."""

    def __init__(self, trainer: CCFTrainer, model: CCF, data: OfferBatches, optimizer: str) -> None:
        self.trainer, self.data = trainer, data
        self.users, self.items = (_dense(one) for one in (model.user_embedding, model.encoder.items))
        self.mean = model.mean_user.clone()
        weights = [self.users.weight, self.items.weight]
        self.optimizer = OPTIMIZERS[optimizer](weights, lr=trainer.table_learning_rate)

    def step(self, at: NDArray[np.int32], generator: torch.Generator) -> None:
        """One step on the events at these positions."""
        self.optimizer.zero_grad()
        self.loss(at, generator).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def loss(self, at: NDArray[np.int32], generator: torch.Generator) -> Tensor:
        """The loss of `CCFTrainer`: corrected offers without hits, and the distance of users to their running mean."""
        trainer, data = self.trainer, self.data
        users, items, _ = data.rows(at)
        ids, log_q = mixed_negatives(
            items, trainer.uniform_negatives, data.item_counts, len(data.events), generator
        )
        vectors, hits = self.users(users), ids[None, :] == items[:, None]  # [P, D], [P, M]
        loss = offer_softmax_loss(
            vectors, self.items(items), self.items(ids), log_q[: len(items)], log_q, hits
        )
        per_event = data.per_event[users]
        self.mean.lerp_((per_event / per_event.sum()) @ vectors.detach(), MOMENTUM)
        distances = (vectors - self.mean).square().sum(1)
        loss += trainer.prior_weight * (distances * per_event).mean()
        return loss


def _dense(table: nn.Embedding) -> nn.Embedding:
    """A table with the same weights and dense gradients."""
    weights = table.weight.detach().clone()
    return nn.Embedding(len(weights), weights.shape[1], _weight=weights)
