"""Training of one recurrence: every event of its sequences is predicted from the state before it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.train.loop.blocked_softmax import blocked_softmax_loss
from shortlist.train.loop.losses import softmax_loss
from shortlist.train.loop.offers import log_expected, mixed_negatives
from shortlist.train.loop.shared_negatives import shared_negatives_loss
from shortlist.train.two_time_scale.batches import DeviceEvents, Loss, SequenceBatch

MOST_POSITIVES = 512  # positives of a batch that are candidates of all its events


@dataclass(frozen=True)
class LossSettings:
    """A softmax over all items, or over an offer: the own item, items of the batch, and uniform ones."""

    softmax: bool
    uniform: int
    correction: bool


GROUP = {  # beginnings of the names of the weights of each group; `no_item` belongs to new users, who need it first
    False: ("new_users.", "start", "mix.new.", "no_item"),
    True: ("active_users.", "active_start", "anchor", "output.", "mix.active."),
}


@contextmanager
def training_only(model: TwoTimeScale, beginnings: tuple[str, ...]) -> Iterator[None]:
    """Inside the block only the weights whose names begin so have gradients."""
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith(beginnings))
    try:
        yield
    finally:
        model.requires_grad_(True)


def readouts(model: TwoTimeScale, piece: Tensor, before: Tensor, users: Tensor, active: bool) -> Tensor:
    """User vectors before each event of sequences [B, L], padding last -> [B, L, D].

    `before` [B] is the item before the first event; users [B], -1 = read as a new user.
    """
    return readouts_from(model, piece, before, model.active(users), model.personal(users), active)


def readouts_from(
    model: TwoTimeScale, piece: Tensor, before: Tensor, group: Tensor, personal: Tensor, active: bool
) -> Tensor:
    """The same for users of these groups [B] and personal vectors [B, D]."""
    states = model.starts_of(group, personal)[:, None]
    if piece.shape[1] > 1:
        path = model.states(piece[:, :-1], states[:, 0], active, personal)
        states = torch.cat([states, path], dim=1)
    last = torch.cat([before[:, None], piece[:, :-1]], dim=1)
    return model.readout_of(states, last, group[:, None], personal[:, None])


def group_loss(model: TwoTimeScale, events: DeviceEvents, active: bool, settings: LossSettings) -> Loss:
    """The mean loss of the events of a batch of sequences."""

    def loss(batch: SequenceBatch, generator: torch.Generator) -> Tensor:
        given = (model, batch.piece, batch.before)
        if batch.bases is None:
            vectors = readouts(*given, batch.users, active)
        else:
            group = torch.full_like(batch.users, active, dtype=torch.bool)
            vectors = readouts_from(*given, group, batch.bases, active)
        users = F.dropout(vectors[batch.row, batch.place], model.config.dropout, model.training)
        if settings.softmax:
            return full_softmax(users, model.inputs(), batch.targets, batch.weights)
        return offered(model.inputs(), users, batch.targets, batch.weights, events, settings, generator)

    return loss


def full_softmax(users: Tensor, items: Tensor, targets: Tensor, weights: Tensor | None) -> Tensor:
    """The mean loss of user vectors [P, D] against all items [N, D]; events of weight 0 are left out."""
    if users.is_cuda:
        return softmax_loss(users @ items.T, targets, weights)
    if weights is not None:
        used = (weights > 0).nonzero()[:, 0]
        users, targets, weights = users[used], targets[used], weights[used]
    return blocked_softmax_loss(users, items, targets, weights)


def offered(
    items: Tensor,
    users: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    events: DeviceEvents,
    settings: LossSettings,
    generator: torch.Generator,
) -> Tensor:
    """The loss of user vectors [P, D] and their targets [P] against candidates that the batch shares."""
    some, uniform, total = targets, settings.uniform, len(events.items)
    if len(targets) > MOST_POSITIVES:
        order = torch.randperm(len(targets), generator=generator, device=targets.device)
        some = targets[order[:MOST_POSITIVES]]
    candidates, log_q = mixed_negatives(some, uniform, events.counts, total, generator)
    chosen = (users * F.embedding(targets, items)).sum(1)
    if settings.correction:
        chosen = chosen - log_expected(targets, len(some), uniform, events.counts, total)
    corrections = log_q if settings.correction else None

    def vectors(rows: Tensor) -> Tensor:
        return F.embedding(rows, items)

    return shared_negatives_loss(users, chosen, targets, candidates, vectors, corrections, weights)
