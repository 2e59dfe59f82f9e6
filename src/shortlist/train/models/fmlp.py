"""FMLP-Rec, taught to foretell events from the window before them."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.data import Interactions
from shortlist.models.sequence.fmlp import FMLP, FMLPConfig
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.sequence import check_softmax, softmax_where
from shortlist.train.models.window import WindowTrainer


@dataclass(frozen=True)
class FMLPTrainer(WindowTrainer):
    """Softmax over the whole catalogue. Filters hear what comes later, too: only the last place may foretell."""

    title: ClassVar[str] = "fmlp"

    width: int = 64
    blocks: int = 2
    dropout: float = 0.3

    def model(self, n_items: int) -> FMLP:
        return FMLP(FMLPConfig(n_items, self.max_history, self.width, self.blocks, self.dropout))

    def check(self, events: Interactions) -> None:
        check_softmax(self.title, self.batch_size, events.n_items)

    def loss_of(self, model: FMLP, history: Tensor, wanted: Tensor, proposal: Proposal) -> Tensor:
        with torch.autocast(history.device.type, torch.bfloat16, enabled=history.is_cuda):
            logits = model.users(history) @ model.vectors().T  # [B, N]
        return softmax_where(logits.float(), wanted)
