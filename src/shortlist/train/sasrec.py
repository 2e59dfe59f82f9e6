"""SASRec, taught to foretell every event of every user from the ones before it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Cases, Interactions
from shortlist.data.membership import is_in
from shortlist.progress import Progress, silent
from shortlist.represent.sasrec import SASRec, SASRecConfig
from shortlist.train.device import device_of
from shortlist.train.loop import Loop
from shortlist.train.ranges import check_ranges

UNKNOWN = -1


@dataclass(frozen=True)
class SASRecTrainer:
    """Softmax over the whole catalogue at every place of a user's sequence.

    An epoch shows every event once, in pieces of up to `memory` + 1; long sequences are cut at other places in every
    epoch. It stops early when recall@20 on the cases to choose by no longer rises.
    """

    width: int = 64
    blocks: int = 2
    heads: int = 2
    memory: int = 69
    dropout: float = 0.2
    epochs: int = 60
    batch: int = 128  # pieces of sequences
    rate: float = 1e-3
    decay: float = 1e-4
    patience: int = 5
    ahead: int = 1  # what is foretold is one of so many next events
    device: str = "auto"

    def fit(
        self, events: Interactions, valid: Cases | None = None, seed: int = 0, progress: Progress = silent
    ) -> SASRec:
        """A trained model, on the device it was trained on."""
        check_ranges(vars(self))
        device = device_of(self.device)
        torch.manual_seed(seed)
        model = SASRec(self.config(events.n_items)).to(device)
        if not len(events):
            return model.eval()  # nothing to learn from
        loop = Loop(self.epochs, self.rate, self.decay, self.patience)
        batches, judge = self._batches(model, events, seed, device), _judge(model, valid, seed, device)
        loop.run(model, batches, self._steps(events), "sasrec", progress, judge)
        return model

    def config(self, n_items: int) -> SASRecConfig:
        """The sizes of the model."""
        return SASRecConfig(n_items, self.memory, self.width, self.blocks, self.heads, self.dropout)

    def _steps(self, events: Interactions) -> int:
        """The most batches an epoch may have."""
        reach = self.memory + 1
        count = np.where(events.lengths > reach, events.lengths // reach + 2, events.lengths > 0).sum()
        return -(-int(count) // self.batch)

    def _batches(
        self, model: SASRec, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        items = torch.from_numpy(events.items.astype(np.int64)).to(device)  # [E]
        reach = min(self.memory + 1, int(events.lengths.max()))
        places = torch.arange(reach, device=device)
        held = torch.zeros((2, self.batch), dtype=torch.int64, device=device)  # where pieces start and stop

        def steady() -> Tensor:
            return _loss(model, _cut(items, held[0], held[1], places), self.ahead)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((seed, epoch))
            starts, stops = pieces(events.lengths, self.memory + 1, generator)
            order = generator.permutation(len(starts))
            edges = torch.from_numpy(np.stack([starts[order], stops[order]])).to(device)
            for part in torch.split(edges, self.batch, dim=1):
                if device.type == "cuda":  # one function on the same tensors: it can be recorded
                    held.zero_()[:, : part.shape[1]] = part  # a batch that is not full ends with empty pieces
                    yield steady
                else:
                    cut = _cut(items, part[0], part[1], places)
                    yield lambda cut=cut: _loss(model, cut, self.ahead)  # type: ignore[misc]

        return batches


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


def _loss(model: SASRec, piece: Tensor, ahead: int = 1) -> Tensor:
    """Mean over events of logsumexp(all items) - own score, each foretold from what stands before it in the piece."""
    with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
        known = model(piece[:, :-1])  # [B, reach, D]
        logits = known @ model.items.weight.T  # [B, reach, N]
    wanted = piece if ahead == 1 else _ahead(piece, ahead)
    return F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=UNKNOWN)


def _ahead(piece: Tensor, ahead: int) -> Tensor:
    """In place of each event of a piece one of the `ahead` events from it on, as far as the piece goes."""
    left = (piece != UNKNOWN).flip(1).cumsum(1).flip(1).clamp(1, ahead)  # [B, reach] events to choose from
    drawn = torch.randint(1 << 31, piece.shape, device=piece.device) % left
    return piece.gather(1, torch.arange(piece.shape[1], device=piece.device) + drawn)


def _judge(
    model: SASRec, valid: Cases | None, seed: int, device: torch.device, most: int = 1000
) -> Callable[[], float] | None:
    """Recall@20 without what was seen, on up to `most` cases."""
    if valid is None or not len(valid):
        return None
    cases = valid.take(np.random.default_rng(seed).permutation(len(valid))[:most])
    history = cases.query(width=model.config.memory).history.to(device)
    truth = cases.truth().to(device)
    count = (truth >= 0).sum(1).clamp(min=1)
    ranks = min(20, model.config.n_items)

    @torch.no_grad()
    def judge() -> float:
        scores = model.scores(history)  # [C, N]
        scores = torch.cat([scores, scores.new_zeros(len(scores), 1)], dim=1)  # a place for padding
        scores.scatter_(1, torch.where(history < 0, scores.shape[1] - 1, history), -torch.inf)
        items = scores[:, :-1].topk(ranks, dim=1).indices
        return float((is_in(items, truth).sum(1) / count).mean())

    return judge
