"""Sequence models, taught to foretell every event of every user from the ones before it."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Interactions
from shortlist.errors import ConfigError
from shortlist.models.model import VectorModel
from shortlist.train.loop.losses import binary_loss, sampled_softmax_loss
from shortlist.train.loop.negatives import Proposal
from shortlist.train.loop.ranges import check_word
from shortlist.train.loop.trainer import LoopTrainer

UNKNOWN = -1
LOSSES = ("softmax", "sampled", "bce")
MOST = 1 << 30  # logits of a batch, about 12 bytes each with their gradient


@dataclass(frozen=True)
class SequenceTrainer(LoopTrainer):
    """Every place of a user's sequence foretells the item that follows it.

    `loss` is "softmax" over the whole catalogue, "sampled" softmax over `negatives` items drawn by popularity to the
    power `alpha` and corrected for it, or "bce", the binary loss against `negatives` drawn for every place. An epoch
    shows every event once, in pieces of up to `max_history` + 1; long sequences are cut at other places in every epoch. It
    stops early when what the cases to choose by are judged by no longer rises.
    """

    max_history: int = 69
    loss: str = "softmax"
    ahead: int = 1  # what is foretold is one of so many next events

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("loss", self.loss, LOSSES)

    @abstractmethod
    def model(self, n_items: int) -> VectorModel:
        """A fresh model."""

    def loss_of(self, model: Any, piece: Tensor, proposal: Proposal) -> Tensor:
        """The mean loss of pieces [B, reach] of sequences, -1 = padding at the end."""
        with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
            known = model(piece[:, :-1])  # [B, reach, D]
        wanted = piece if self.ahead == 1 else ahead_of(piece, self.ahead)
        return place_loss(self, known, model.vectors(), wanted, proposal)

    def begin(self, events: Interactions, device: torch.device) -> VectorModel:
        return self.model(events.n_items).to(device)

    def check(self, events: Interactions) -> None:
        if self.loss == "softmax":
            check_softmax(self.title, self.batch_size * self._places(), events.n_items)

    def _places(self) -> int:
        """How many places of a piece foretell."""
        return self.max_history + 1

    def _steps(self, events: Interactions) -> int:
        reach = self.max_history + 1
        count = np.where(events.lengths > reach, events.lengths // reach + 2, events.lengths > 0).sum()
        return -(-int(count) // self.batch_size)

    def _batches(
        self, model: VectorModel, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        items = torch.from_numpy(events.items.astype(np.int64)).to(device)  # [E]
        proposal = Proposal.of(events.popularity, self.alpha, device)
        reach = min(self.max_history + 1, int(events.lengths.max()))
        places = torch.arange(reach, device=device)
        held = torch.zeros((2, self.batch_size), dtype=torch.int64, device=device)  # where pieces start and stop

        def steady() -> Tensor:
            return self.loss_of(model, _cut(items, held[0], held[1], places), proposal)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((seed, epoch))
            starts, stops = pieces(events.lengths, self.max_history + 1, generator)
            order = generator.permutation(len(starts))
            edges = torch.from_numpy(np.stack([starts[order], stops[order]])).to(device)
            for part in torch.split(edges, self.batch_size, dim=1):
                if device.type == "cuda":  # one function on the same tensors: it can be recorded
                    held.zero_()[:, : part.shape[1]] = part  # a batch that is not full ends with empty pieces
                    yield steady
                else:
                    cut = _cut(items, part[0], part[1], places)
                    yield lambda cut=cut: self.loss_of(model, cut, proposal)  # type: ignore[misc]

        return batches


def check_softmax(title: str, places: int, n_items: int) -> None:
    """Refuse a softmax over the whole catalogue that no memory holds, before there is any."""
    if places * n_items > MOST:
        raise ConfigError(
            f"{title}: a softmax over {n_items:,} items at {places:,} places of a batch makes more than {MOST:,} "
            'numbers; say loss = "sampled" where the model has it, or a smaller batch or memory'
        )


def place_loss(
    trainer: SequenceTrainer, known: Tensor, vectors: Tensor, wanted: Tensor, proposal: Proposal
) -> Tensor:
    """The mean loss of places [B, R] that want an item: vectors of users [B, R, D] against those of items [N, D]."""
    known, wanted = known.flatten(0, 1), wanted.flatten()  # [P, D], [P]
    there = wanted >= 0
    with torch.autocast(known.device.type, torch.bfloat16, enabled=known.is_cuda):
        if trainer.loss == "softmax":
            return softmax_where((known @ vectors.T).float(), wanted)
        own = (known * F.embedding(wanted.clamp(min=0), vectors)).sum(1).float()  # [P]
        if trainer.loss == "sampled":
            drawn = proposal.draw((trainer.negatives,))
            others = (known @ F.embedding(drawn, vectors).T).float()  # [P, M]
            others = others - proposal.log_expected(drawn, trainer.negatives)
            others = others.masked_fill(drawn[None, :] == wanted[:, None], -torch.inf)
            return mean_where(sampled_softmax_loss(own, others), there)
        drawn = proposal.draw((len(wanted), trainer.negatives))
        others = torch.einsum("pd,pmd->pm", known, F.embedding(drawn, vectors)).float()
        return mean_where(binary_loss(own, others, drawn != wanted[:, None]), there)


def softmax_where(logits: Tensor, wanted: Tensor) -> Tensor:
    """The mean softmax loss over the places [P] that want an item, -1 = none; 0 without any."""
    total = F.cross_entropy(logits, wanted, ignore_index=UNKNOWN, reduction="sum")
    return total / (wanted >= 0).sum().clamp(min=1)


def mean_where(losses: Tensor, there: Tensor) -> Tensor:
    """The mean over the places that count; 0 without any."""
    return torch.where(there, losses, 0.0).sum() / there.sum().clamp(min=1)


def pieces(
    lengths: NDArray[np.int64], reach: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where pieces of up to `reach` events start and stop, together every event once; no piece holds two users.

    A sequence that fits stays whole; a longer one is cut at places that differ from draw to draw.
    """
    begin = np.cumsum(lengths) - lengths  # [users]
    shift = np.where(lengths > reach, generator.integers(0, reach, len(lengths)), 0)
    count = -(-(lengths + shift) // reach)  # [users], none for a user without events
    owner = np.repeat(np.arange(len(lengths)), count)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    starts = nth * reach - shift[owner]
    stops = np.minimum(starts + reach, lengths[owner])
    return begin[owner] + np.maximum(starts, 0), begin[owner] + stops


def _cut(items: Tensor, starts: Tensor, stops: Tensor, places: Tensor) -> Tensor:
    """Pieces of sequences [B, reach], filled up with -1."""
    at = starts[:, None] + places
    inside = at < stops[:, None]
    return torch.where(inside, items[torch.where(inside, at, 0)], UNKNOWN)


def ahead_of(piece: Tensor, ahead: int) -> Tensor:
    """In place of each event of a piece one of the `ahead` events from it on, as far as the piece goes."""
    left = (piece != UNKNOWN).flip(1).cumsum(1).flip(1).clamp(1, ahead)  # [B, reach] events to choose from
    drawn = torch.randint(1 << 31, piece.shape, device=piece.device) % left
    return piece.gather(1, torch.arange(piece.shape[1], device=piece.device) + drawn)
