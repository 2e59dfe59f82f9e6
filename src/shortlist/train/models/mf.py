"""The trainer of matrix factorisation: BPR, sampled softmax, or choices from offers."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import Catalog, Interactions
from shortlist.errors import ConfigError
from shortlist.models.collaborative.mf import MF
from shortlist.settings import setting
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.losses import bpr_loss, offer_loss, sampled_softmax_loss, weighted_mean
from shortlist.train.models.pairs import Pairs, PairTrainer
from shortlist.train.models.retrieval import RetrievalTrainer, ScoreInstances
from shortlist.train.objectives.instances import InstanceBatch

LOSSES = ("bpr", "softmax", "ccf")


@dataclass(frozen=True)
class MFTrainer(PairTrainer, RetrievalTrainer):
    """Every event against sampled negatives; `loss` is that of events with objective = "softmax"."""

    uses_weights: ClassVar[bool | None] = True
    sparse_gradients: ClassVar[bool] = True

    model: type[Any] = field(default=MF, kw_only=True)
    loss: str = setting(
        "softmax",
        "bpr against one negative, sampled softmax with corrected logits, or ccf against an offer of negatives.",
        choices=LOSSES,
    )
    negatives: int = setting(
        1024, "Sampled negatives per batch (softmax) or per event (ccf).", least=1, most=10_000_000
    )
    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lists_events and self.loss != MFTrainer.loss:
            raise ConfigError(
                f"mf: set loss or objective, got loss = {self.loss!r} and objective = {self.objective!r}"
            )

    def begin(self, events: Interactions, catalog: Catalog | None) -> MF:
        return MF(self.config_for(events, n_users=events.n_users))

    def loss_of(
        self, model: MF, users: Tensor, items: Tensor, pairs: Pairs, weights: Tensor | None = None
    ) -> Tensor:
        user_vectors, item_vectors = model.user_embedding(users), model.items(items)  # [B, D]
        positive = (user_vectors * item_vectors).sum(1)  # [B]
        if self.lists_events:
            sampled, valid = pairs.negatives(users, self.list_negatives)
            negatives = torch.einsum("bd,bmd->bm", user_vectors, model.items(sampled))
            scores = torch.cat([positive[:, None], negatives], dim=1)
            return self.list_mean(scores, pad(valid, (1, 0), value=True), weights)
        if self.loss == "softmax":
            sampled = pairs.sampler.sample((self.negatives,))
            correction = pairs.sampler.log_expected(sampled, self.negatives)
            negatives = user_vectors @ model.items(sampled).T - correction
            negatives = negatives.masked_fill(sampled[None, :] == items[:, None], -torch.inf)
            return weighted_mean(sampled_softmax_loss(positive, negatives), weights)
        sampled, valid = pairs.negatives(users, 1 if self.loss == "bpr" else self.negatives)
        negatives = torch.einsum("bd,bmd->bm", user_vectors, model.items(sampled))
        if self.loss == "bpr":
            return weighted_mean(bpr_loss(positive, negatives[:, 0]) * valid[:, 0], weights)
        return weighted_mean(offer_loss(positive, negatives, valid), weights)

    def instance_scores(self, model: MF, events: Interactions, log: TrainingLog) -> ScoreInstances:
        users = torch.from_numpy(log.log.user_id.astype(np.int64)).to(model.gram.device)

        def scores(batch: InstanceBatch) -> Tensor:
            vectors = model.user_embedding(users[batch.users])  # [B, D]
            return torch.einsum("bd,bld->bl", vectors, model.items(batch.items.clamp(min=0)))

        return scores

    def batch_values(self, events: Interactions) -> int:
        gathered = 1 + self.vector_width  # of a negative that belongs to one event
        if self.lists_events:
            return min(self.batch_size, len(events)) * self.list_negatives * gathered
        values = {"softmax": self.negatives, "bpr": gathered, "ccf": self.negatives * gathered}[self.loss]
        return min(self.batch_size, len(events)) * values

    def finish(self, model: MF, events: Interactions) -> None:
        model.finish(torch.from_numpy(events.lengths > 0).to(model.gram.device))
