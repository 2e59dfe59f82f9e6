"""The trainer of sequence models: predict every event of every user from the events before it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import UNKNOWN, Interactions
from shortlist.errors import ConfigError
from shortlist.models.model import VectorModel
from shortlist.settings import setting
from shortlist.train.loop.blocked_softmax import BLOCK, blocked_softmax_loss
from shortlist.train.loop.device import device_of
from shortlist.train.loop.lazy_adamw import LAZY_ROWS
from shortlist.train.loop.losses import binary_loss, sampled_softmax_loss
from shortlist.train.loop.negatives import NegativeSampler
from shortlist.train.loop.shared_negatives import shared_negatives_loss
from shortlist.train.loop.trainer import LoopTrainer
from shortlist.train.models.trainer import strengths_on

LOSSES = ("auto", "softmax", "sampled", "bce")
FULL = ("auto", "softmax")  # over all items; `auto` is resolved with the events
MAX_LOGITS = 1 << 30  # of a batch, about 12 bytes each with their gradient
AFFORDABLE = (
    500_000_000  # logits of an epoch on a CPU, 1 to 3 s of one core; "auto" samples negatives for more
)
LENGTH_NOISE = 0.2  # pieces of a batch on a CPU have about the same length, up to this share


@dataclass(frozen=True)
class SequenceTrainer(LoopTrainer):
    """Trains any `SequenceModel`: every position of a sequence predicts the next item.

    An epoch contains every event once, in pieces of up to `max_history` + 1 events. Longer sequences are cut at other
    positions in every epoch. On a CPU a batch has pieces of similar lengths and as many events as `batch_size` pieces
    have on average.
    """

    uses_weights: ClassVar[bool | None] = True
    reads_histories: ClassVar[bool] = True
    sparse_gradients: ClassVar[bool] = True

    loss: str = setting(
        "auto",
        "softmax over all items, sampled softmax over negatives, or bce against negatives of every position; "
        "auto: softmax where it is affordable, else sampled.",
        choices=LOSSES,
    )
    negatives: int = setting(
        256, "Sampled negatives per batch (sampled) or per position (bce).", least=1, most=10_000_000
    )
    alpha: float = setting(
        0.5, "Negatives are sampled by popularity to this power; 0 is uniform.", least=0, most=1000
    )
    ahead: int = setting(
        1,
        "The target is one of the next `ahead` events, at random; 0: chosen on validation.",
        least=0,
        most=10_000,
    )

    def resolved(self, events: Interactions) -> Self:
        return replace(self, loss=self.loss_for(events)) if self.loss == "auto" else self

    def loss_for(self, events: Interactions) -> str:
        """The loss of `auto`: softmax if its logits fit into a GPU, or take little time on a CPU."""
        if device_of(self.device).type == "cpu":
            small = events.n_items <= LAZY_ROWS and len(events) * events.n_items <= AFFORDABLE
            return "softmax" if small else "sampled"
        return "softmax" if self.batch_size * self._targets() * events.n_items <= MAX_LOGITS else "sampled"

    @property
    def piece_length(self) -> int:
        """Events of a piece of a sequence: a full history and its target."""
        length: int = self.config.max_history + 1
        return length

    def loss_of(
        self, model: Any, piece: Tensor, sampler: NegativeSampler, weights: Tensor | None = None
    ) -> Tensor:
        """The mean loss of pieces of sequences [B, L], -1 = padding at the end; events have `weights` [B, L]."""
        with torch.autocast(piece.device.type, torch.bfloat16, enabled=piece.is_cuda):
            users = model(piece[:, :-1])  # [B, L, D]
        target = piece
        if self.ahead > 1:
            chosen = ahead_of(piece, self.ahead)
            target, weights = piece.gather(1, chosen), None if weights is None else weights.gather(1, chosen)
        return self.position_loss(users, model.vectors(), target, sampler, weights)

    def position_loss(
        self,
        users: Tensor,
        items: Tensor,
        target: Tensor,
        sampler: NegativeSampler,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The mean loss of positions with a target [B, L], -1 = none: users [B, L, D] against items [N, D].

        `weights` [B, L] multiply the losses.
        """
        users, target = users.flatten(0, 1), target.flatten()  # [P, D], [P]
        weights = None if weights is None else weights.flatten()
        if (
            not users.is_cuda
        ):  # a recorded step needs fixed shapes; here, positions without a target cost time
            used = (target >= 0 if weights is None else (target >= 0) & (weights > 0)).nonzero()[:, 0]
            users, target = users[used], target[used]
            weights = None if weights is None else weights[used]
            if self.loss in FULL:
                return blocked_softmax_loss(users, items, target, weights)
            if self.loss == "sampled":
                return self._shared(users, items, target, weights, sampler)
        sparse = len(items) > LAZY_ROWS and not users.is_cuda
        with torch.autocast(users.device.type, torch.bfloat16, enabled=users.is_cuda):
            if self.loss in FULL:
                return softmax_where((users @ items.T).float(), target, weights)
            positive = (users * F.embedding(target.clamp(min=0), items, sparse=sparse)).sum(1).float()  # [P]
            if self.loss == "sampled":
                return mean_where(
                    self._sampled(users, items, target, positive, sampler), target >= 0, weights
                )
            sampled = sampler.sample((len(target), self.negatives))
            negatives = torch.einsum("pd,pmd->pm", users, F.embedding(sampled, items, sparse=sparse)).float()
            losses = binary_loss(positive, negatives, sampled != target[:, None])
            return mean_where(losses, target >= 0, weights)

    def _shared(
        self, users: Tensor, items: Tensor, target: Tensor, weights: Tensor | None, sampler: NegativeSampler
    ) -> Tensor:
        """The same as the mean of `_sampled`, block by block."""
        sampled, sparse = sampler.sample((self.negatives,)), len(items) > LAZY_ROWS

        def vectors(rows: Tensor) -> Tensor:
            return F.embedding(rows, items, sparse=sparse)

        positive = (users * vectors(target)).sum(1)
        log_q = sampler.log_expected(sampled, self.negatives)
        return shared_negatives_loss(users, positive, target, sampled, vectors, log_q, weights)

    def _sampled(
        self, users: Tensor, items: Tensor, target: Tensor, positive: Tensor, sampler: NegativeSampler
    ) -> Tensor:
        """Softmax against negatives that the batch shares, corrected for their sampling probabilities [P]."""
        sampled = sampler.sample((self.negatives,))
        sparse = len(items) > LAZY_ROWS and not users.is_cuda
        negatives = (users @ F.embedding(sampled, items, sparse=sparse).T).float()  # [P, M]
        negatives = negatives - sampler.log_expected(sampled, self.negatives)
        negatives = negatives.masked_fill(sampled[None, :] == target[:, None], -torch.inf)
        return sampled_softmax_loss(positive, negatives)

    def check(self, events: Interactions) -> None:
        if self.loss == "softmax":
            check_softmax(self.title, self.batch_size * self._targets(), events.n_items)

    def batch_values(self, events: Interactions) -> int:
        if not len(events):
            return 0
        gathered = self.negatives * (1 + self.vector_width)  # bce: every position has negatives of its own
        loss, positions = self.resolved(events).loss, self.batch_size * min(self._targets(), _longest(events))
        if loss == "softmax" and device_of(self.device).type == "cpu":
            return BLOCK + positions * self.vector_width
        return positions * {"softmax": events.n_items, "sampled": self.negatives, "bce": gathered}[loss]

    def _targets(self) -> int:
        """The largest number of positions of a piece that have a target."""
        return self.piece_length

    def _steps(self, events: Interactions) -> int:
        length = self.piece_length
        count = np.where(events.lengths > length, events.lengths // length + 2, events.lengths > 0).sum()
        return -(-int(count) // self.batch_size)

    def _batches(
        self, model: VectorModel, events: Interactions, seed: int, device: torch.device
    ) -> Callable[[int], Iterator[Callable[[], Tensor]]]:
        items = torch.from_numpy(events.items.astype(np.int64)).to(device)  # [E]
        sampler = NegativeSampler.of(events.popularity, self.alpha, device)
        weights = strengths_on(events, device)
        positions = torch.arange(min(self.piece_length, _longest(events)), device=device)
        edges = torch.zeros((2, self.batch_size), dtype=torch.int64, device=device)  # starts and stops

        def loss(starts: Tensor, stops: Tensor, positions: Tensor) -> Tensor:
            piece = _cut(items, starts, stops, positions)
            own = () if weights is None else (_cut(weights, starts, stops, positions),)
            return self.loss_of(model, piece, sampler, *own)

        def recorded() -> Tensor:
            return loss(edges[0], edges[1], positions)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            generator = np.random.default_rng((seed, epoch))
            starts, stops = pieces(events.lengths, self.piece_length, generator)
            edge = torch.from_numpy(np.stack([starts, stops])).to(device)
            if device.type == "cpu":
                for rows in similar_lengths(stops - starts, self.batch_size, generator):
                    begin, end = edge[0, rows], edge[1, rows]
                    yield partial(loss, begin, end, positions[: int((end - begin).max())])
                return
            order = torch.from_numpy(generator.permutation(len(starts))).to(device)
            for part in torch.split(edge[:, order], self.batch_size, dim=1):
                edges.zero_()[:, : part.shape[1]] = part  # the last batch is filled up with empty pieces
                yield recorded  # one function on the same tensors can be recorded

        return batches


def check_softmax(title: str, targets: int, n_items: int) -> None:
    """Refuse a softmax over the whole catalogue that does not fit into memory."""
    if targets * n_items > MAX_LOGITS:
        raise ConfigError(
            f"{title}: a softmax over {n_items:,} items at {targets:,} positions of a batch makes more than "
            f'{MAX_LOGITS:,} logits; set loss = "sampled" if the model has it, or a smaller batch_size or max_history'
        )


def softmax_where(logits: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean softmax loss over the rows [P] with a target, -1 = none, each times its weight; 0 without any."""
    if weights is not None:
        losses = F.cross_entropy(logits, target, ignore_index=UNKNOWN, reduction="none")
        return mean_where(losses, target >= 0, weights)
    total = F.cross_entropy(logits, target, ignore_index=UNKNOWN, reduction="sum")
    return total / (target >= 0).sum().clamp(min=1)


def mean_where(losses: Tensor, valid: Tensor, weights: Tensor | None = None) -> Tensor:
    """The mean over the valid entries with a weight above 0, each times its weight; 0 without any."""
    if weights is not None:
        losses, valid = losses * weights, valid & (weights > 0)
    return torch.where(valid, losses, 0.0).sum() / valid.sum().clamp(min=1)


def pieces(
    lengths: NDArray[np.int64], longest: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and stops of pieces of up to `longest` events that contain every event once; no piece mixes users.

    A sequence that fits stays whole; a longer one is cut at random positions.
    """
    begin = np.cumsum(lengths) - lengths  # [users]
    shift = np.where(lengths > longest, generator.integers(0, longest, len(lengths)), 0)
    count = -(-(lengths + shift) // longest)  # [users], 0 for a user without events
    owner = np.repeat(np.arange(len(lengths)), count)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    starts = nth * longest - shift[owner]
    stops = np.minimum(starts + longest, lengths[owner])
    return begin[owner] + np.maximum(starts, 0), begin[owner] + stops


def similar_lengths(
    lengths: NDArray[np.int64], size: int, generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Random batches of pieces of similar lengths, with as many events as `size` pieces have on average.

    So no batch has much padding, and every event has about the same weight in the mean loss of its batch.
    """
    noise = 1.0 + LENGTH_NOISE * generator.random(len(lengths))
    order = np.argsort(lengths * noise, kind="stable")
    before = np.cumsum(lengths[order]) - lengths[order]
    number = before // max(-(-int(lengths.sum()) * size // max(len(lengths), 1)), 1)  # [pieces] of its batch
    batches = np.split(order, np.flatnonzero(np.diff(number)) + 1)
    return [batches[at] for at in generator.permutation(len(batches))]


def _longest(events: Interactions) -> int:
    return int(events.lengths.max())


def _cut(events: Tensor, starts: Tensor, stops: Tensor, positions: Tensor) -> Tensor:
    """Items or weights of pieces of sequences [B, L], filled up with -1."""
    at = starts[:, None] + positions
    inside = at < stops[:, None]
    return torch.where(inside, events[torch.where(inside, at, 0)], UNKNOWN)


def ahead_of(piece: Tensor, ahead: int) -> Tensor:
    """For each event of a piece the place of a random one of the `ahead` events from it on, in the piece [B, L]."""
    left = (piece != UNKNOWN).flip(1).cumsum(1).flip(1).clamp(1, ahead)  # [B, L] events to choose from
    offset = torch.randint(1 << 31, piece.shape, device=piece.device) % left
    return torch.arange(piece.shape[1], device=piece.device) + offset
