"""BERT4Rec, taught to fill gaps in the sequences of all users."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shortlist.models.sequence.bert4rec import BERT4Rec, BERT4RecConfig
from shortlist.train.loop.negatives import Proposal
from shortlist.train.models.sequence import SequenceTrainer, place_loss


@dataclass(frozen=True)
class BERT4RecTrainer(SequenceTrainer):
    """A share `mask_share` of the places of every piece is hidden and must be told from all others, at least one.

    With probability `mask_last_share` it is the last place alone: that is the gap there will be when it is asked.
    """

    title: ClassVar[str] = "bert4rec"

    epochs: int = 200
    patience: int = 15
    width: int = 64
    blocks: int = 2
    heads: int = 2
    dropout: float = 0.2
    mask_share: float = 0.2
    mask_last_share: float = 0.1

    def model(self, n_items: int) -> BERT4Rec:
        sizes = (self.max_history, self.width, self.blocks, self.heads, self.dropout)
        return BERT4Rec(BERT4RecConfig(n_items, *sizes))

    def _places(self) -> int:
        return hidden_at_most(self.max_history + 1, self.mask_share)

    def loss_of(self, model: BERT4Rec, piece: Tensor, proposal: Proposal) -> Tensor:
        sequence = padding_first(piece)  # [B, R]
        chosen, counts = hidden_places(sequence, self.mask_share, self.mask_last_share)  # [B, M]
        # Added up, not written: a place may be chosen twice and count once.
        gaps = torch.zeros_like(sequence).scatter_add(1, chosen, counts.long()) > 0
        wanted = sequence.gather(1, chosen).masked_fill(~counts, -1)
        with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
            known = model(sequence, gaps)  # [B, R, D]
        known = known.gather(1, chosen[..., None].expand(-1, -1, known.shape[-1]))  # [B, M, D]
        return place_loss(self, known, model.vectors(), wanted, proposal)


def hidden_places(sequence: Tensor, share: float, mask_last_share: float) -> tuple[Tensor, Tensor]:
    """Places [B, M] to hide by lot in each sequence, and which of them count: a share of its items, at least one.

    In a share `mask_last_share` of the sequences it is the last item alone. None counts where there is no item.
    """
    there = sequence >= 0
    most = hidden_at_most(sequence.shape[1], share)
    lot = torch.rand(sequence.shape, device=sequence.device).masked_fill(~there, 2.0)
    chosen = lot.argsort(dim=1)[:, :most]
    lengths = there.sum(1, keepdim=True)
    wished = (lengths * share).long().clamp(min=1)
    counts = (torch.arange(most, device=sequence.device) < wished) & (lengths > 0)
    at_the_end = torch.rand(len(sequence), 1, device=sequence.device) < mask_last_share
    first = torch.arange(most, device=sequence.device)[None, :] == 0
    chosen = torch.where(at_the_end & first, sequence.shape[1] - 1, chosen)
    return chosen, torch.where(at_the_end, first & (lengths > 0), counts)


def hidden_at_most(length: int, share: float) -> int:
    """How many places of so long a sequence are hidden at most."""
    return max(-(-int(length * share * 1000) // 1000), 1)


def padding_first(sequence: Tensor) -> Tensor:
    """The same items in the same order, padding before them."""
    order = (sequence >= 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return sequence.gather(1, order)
