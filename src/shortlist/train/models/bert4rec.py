"""The trainer of BERT4Rec: predict masked items of sequences."""

from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.models.sequence.bert4rec import BERT4Rec
from shortlist.settings import setting
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.models.sequence import SequenceTrainer


@dataclass(frozen=True)
class BERT4RecTrainer(SequenceTrainer):
    """Masks random positions of every piece, at least one, and predicts their items.

    With probability `mask_last_share` only the last position is masked, as when recommending. With `ahead` above 1
    such a sequence loses up to `ahead` - 1 of its last events, and the target is one of them or the masked one.
    """

    mask_share: float = setting(0.2, "Share of the positions that are masked.", least=0.001, most=1)
    mask_last_share: float = setting(
        0.1, "Share of the sequences in which only the last position is masked.", least=0, most=1
    )

    def _targets(self) -> int:
        return most_masked(self.piece_length, self.mask_share)

    def loss_of(
        self, model: BERT4Rec, piece: Tensor, sampler: NegativeSampler, weights: Tensor | None = None
    ) -> Tensor:
        order = padding_first(piece)
        sequence = piece.gather(1, order)  # [B, L]
        chosen, counts = masked_positions(sequence, self.mask_share, self.mask_last_share)  # [B, M]
        # Added, not assigned: a position may be chosen twice and counts once.
        masked = torch.zeros_like(sequence).scatter_add(1, chosen, counts.long()) > 0
        answers = chosen  # [B, M] positions of the targets
        before = sequence
        if self.ahead > 1:
            moved, answer = cut_last(sequence, chosen, counts, self.ahead)
            sequence = sequence.gather(1, moved.clamp(min=0)).masked_fill(moved < 0, -1)
            answers = torch.cat([answer[:, None], chosen[:, 1:]], dim=1)
        target = before.gather(1, answers).masked_fill(~counts, -1)
        with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
            outputs = model(sequence, masked)  # [B, L, D]
        outputs = outputs.gather(1, chosen[..., None].expand(-1, -1, outputs.shape[-1]))  # [B, M, D]
        weights = None if weights is None else weights.gather(1, order).gather(1, answers)
        return self.position_loss(outputs, model.vectors(), target, sampler, weights)


def masked_positions(sequence: Tensor, share: float, last_share: float) -> tuple[Tensor, Tensor]:
    """Random positions [B, M] to mask in each sequence, and which of them count: a share of its items, at least one.

    In a share `last_share` of the sequences it is the last item only. None counts in an empty sequence.
    """
    valid = sequence >= 0
    most = most_masked(sequence.shape[1], share)
    key = torch.rand(sequence.shape, device=sequence.device).masked_fill(~valid, 2.0)
    chosen = key.argsort(dim=1)[:, :most]
    lengths = valid.sum(1, keepdim=True)
    number = (lengths * share).long().clamp(min=1)
    counts = (torch.arange(most, device=sequence.device) < number) & (lengths > 0)
    only_last = torch.rand(len(sequence), 1, device=sequence.device) < last_share
    first = torch.arange(most, device=sequence.device)[None, :] == 0
    chosen = torch.where(only_last & first, sequence.shape[1] - 1, chosen)
    return chosen, torch.where(only_last, first & (lengths > 0), counts)


def cut_last(sequence: Tensor, chosen: Tensor, counts: Tensor, ahead: int) -> tuple[Tensor, Tensor]:
    """Of sequences with the last position masked only, up to `ahead` - 1 last events are cut off.

    Returns the old position of every new one [B, L], negative = none, and the old position of the first target [B]: the
    event that is masked now, or a random one of those cut off.
    """
    last = sequence.shape[1] - 1
    alone = (chosen[:, 0] == last) & (counts.sum(1) == 1)  # [B]
    length = (sequence >= 0).sum(1).clamp(1, ahead)
    cut = torch.where(alone, torch.randint(1 << 31, length.shape, device=sequence.device) % length, 0)
    moved = torch.arange(last + 1, device=sequence.device) - cut[:, None]
    answer = last - torch.randint(1 << 31, length.shape, device=sequence.device) % (cut + 1)
    return moved, torch.where(alone, answer, chosen[:, 0])


def most_masked(length: int, share: float) -> int:
    """The largest number of masked positions in a sequence of this length."""
    return max(-(-int(length * share * 1000) // 1000), 1)


def padding_first(sequence: Tensor) -> Tensor:
    """The places of padding, then those of the items in the same order [B, L]."""
    return (sequence >= 0).to(torch.uint8).sort(dim=1, stable=True).indices
