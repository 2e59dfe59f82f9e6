"""Matrix factorisation, by pairs, by a sampled softmax, or by choices from offers."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Interactions
from shortlist.models.collaborative.mf import MF, MFConfig
from shortlist.train.loop.losses import bpr_loss, offer_loss, sampled_softmax_loss
from shortlist.train.loop.ranges import check_word
from shortlist.train.models.pairs import Pairs, PairTrainer

LOSSES = ("bpr", "softmax", "ccf")


@dataclass(frozen=True)
class MFTrainer(PairTrainer):
    """Every met item against others.

    `loss` is "bpr", against one unmet item; "softmax", against `negatives` that the batch shares, drawn by popularity
    to the power `alpha` and corrected for it; or "ccf", against an offer of `negatives` unmet items.
    """

    title: ClassVar[str] = "mf"

    loss: str = "softmax"
    negatives: int = 1024
    alpha: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("loss", self.loss, LOSSES)

    def begin(self, events: Interactions, device: torch.device) -> MF:
        return MF(MFConfig(events.n_items, n_users=events.n_users, width=self.width)).to(device)

    def loss_of(self, model: MF, users: Tensor, items: Tensor, pairs: Pairs) -> Tensor:
        people, own = model.people(users), model.items(items)  # [B, D]
        chosen = (people * own).sum(1)  # [B]
        if self.loss == "softmax":
            drawn = pairs.proposal.draw((self.negatives,))
            others = people @ model.items(drawn).T - pairs.proposal.log_expected(drawn, self.negatives)
            others = others.masked_fill(drawn[None, :] == items[:, None], -torch.inf)
            return sampled_softmax_loss(chosen, others).mean()
        count = 1 if self.loss == "bpr" else self.negatives
        drawn, unmet = pairs.unmet(users, count)
        others = torch.einsum("bd,bmd->bm", people, F.embedding(drawn, model.items.weight))
        if self.loss == "bpr":
            return (bpr_loss(chosen, others[:, 0]) * unmet[:, 0]).mean()
        return offer_loss(chosen, others, unmet).mean()

    def settle(self, model: MF, events: Interactions) -> None:
        model.settle(torch.from_numpy(events.lengths > 0).to(model.gram.device))
