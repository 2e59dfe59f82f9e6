"""Batches of sequences on the training device: events and the edges of sequences are moved there in bulk."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from shortlist.data import UNKNOWN, Interactions
from shortlist.train.loop.loop import Batches
from shortlist.train.models.sequence import similar_lengths
from shortlist.train.two_time_scale.sequences import Sequences, items_before


@dataclass(frozen=True, eq=False)
class SequenceBatch:
    """Sequences of similar lengths [B], and the place of each of their events [P]."""

    piece: Tensor  # [B, L] items, padding last
    users: Tensor  # [B] -1 = read as a new user
    before: Tensor  # [B] item before the first event, -1 = none
    row: Tensor  # [P] sequence of each event
    place: Tensor  # [P] its place in the sequence
    targets: Tensor  # [P] its item
    weights: Tensor | None  # [P] its strength; None: all are 1
    bases: Tensor | None  # [B, D] personal vectors to begin with; None: those of the users in the model


@dataclass(frozen=True, eq=False)
class DeviceEvents:
    """The columns of a log that training reads, on a device."""

    items: Tensor  # [E]
    strengths: Tensor | None  # [E]
    counts: Tensor  # [N] events of each item
    host: Interactions

    @classmethod
    def of(cls, events: Interactions, device: torch.device) -> "DeviceEvents":
        strengths = None if events.strengths is None else torch.from_numpy(events.strengths.copy()).to(device)
        items = torch.from_numpy(events.items.astype(np.int64)).to(device)
        return cls(items, strengths, torch.from_numpy(events.popularity.copy()).to(device), events)

    def batch(self, edges: Tensor, longest: int, total: int, bases: Tensor | None = None) -> SequenceBatch:
        """A batch from the start, length, user and item before of each sequence [4, B].

        The longest of them and the number of events come from the host, so that nothing waits for the device.
        """
        starts, lengths, users, before = edges
        places = torch.arange(longest, device=edges.device)
        inside = places < lengths[:, None]
        at = torch.where(inside, starts[:, None] + places, 0)
        piece = torch.where(inside, self.items[at], UNKNOWN)
        rows = torch.arange(edges.shape[1], device=edges.device)
        row = torch.repeat_interleave(rows, lengths, output_size=total)
        place = torch.arange(total, device=edges.device) - (lengths.cumsum(0) - lengths)[row]
        event = starts[row] + place
        weights = None if self.strengths is None else self.strengths[event]
        return SequenceBatch(piece, users, before, row, place, self.items[event], weights, bases)


Loss = Callable[[SequenceBatch, torch.Generator], Tensor]
OfEpoch = Callable[[int], Sequences]
"""The sequences of an epoch: the same events, cut at other positions."""


def batches_of(
    events: DeviceEvents, sequences: Sequences | OfEpoch, loss: Loss, batch_events: int, seed: int
) -> tuple[Batches, int]:
    """Random batches of sequences of similar lengths with about `batch_events` events, and their number per epoch."""
    of_epoch = (lambda _: sequences) if isinstance(sequences, Sequences) else sequences
    total = int(of_epoch(0).lengths.sum())
    device = events.items.device

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        chosen = of_epoch(epoch)
        lengths = chosen.lengths
        size = max(round(batch_events * len(chosen) / max(total, 1)), 1)  # sequences of a batch on average
        before = items_before(events.host, chosen.starts)
        edges = np.stack([chosen.starts, lengths, chosen.users, before])  # [4, S]
        groups = similar_lengths(lengths, size, np.random.default_rng((seed, epoch)))
        generator = torch.Generator(device).manual_seed(mixed(seed, epoch))
        order, sizes = np.concatenate(groups), [len(one) for one in groups]
        moved = torch.split(torch.from_numpy(edges[:, order]).to(device), sizes, dim=1)
        bases: Sequence[Tensor | None] = [None] * len(groups)
        if chosen.bases is not None:
            bases = torch.split(chosen.bases[torch.from_numpy(order).to(device)], sizes)
        for rows, part, own in zip(groups, moved, bases, strict=True):
            longest, count = int(lengths[rows].max()), int(lengths[rows].sum())
            yield partial(_loss, events, loss, part, longest, count, own, generator)

    return batches, max(-(-total // batch_events), 1)


def _loss(
    events: DeviceEvents,
    loss: Loss,
    edges: Tensor,
    longest: int,
    total: int,
    bases: Tensor | None,
    generator: torch.Generator,
) -> Tensor:
    return loss(events.batch(edges, longest, total, bases), generator)


def mixed(seed: int, epoch: int) -> int:
    """The seed of what one epoch draws on the device."""
    return int(np.random.SeedSequence((seed, epoch, 2)).generate_state(1, np.uint64)[0] >> np.uint64(1))
