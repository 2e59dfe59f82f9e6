"""Training of one recurrence: every event of its sequences is predicted from the state before it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from shortlist.data import UNKNOWN, Interactions
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.train.loop.loop import Batches
from shortlist.train.loop.offers import log_expected, mixed_negatives, offer_softmax_loss
from shortlist.train.models.sequence import similar_lengths
from shortlist.train.two_time_scale.sequences import Positions, Sequences, items_before, padded

MOST_POSITIVES = 512  # positives of a batch that are candidates of all its events


@dataclass(frozen=True)
class OfferSettings:
    """The offer set of an event: its own item, items of the batch, and uniform ones."""

    uniform: int
    correction: bool


GROUP = {  # beginnings of the names of the weights of each group; `no_item` belongs to new users, who need it first
    False: ("new_users.", "start", "mix.new.", "no_item"),
    True: ("active_users.", "anchor", "output.", "mix.active."),
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
    start = model.starts(users)
    path = model.states(piece[:, :-1], start, active, model.personal(users))
    states = torch.cat([start[:, None], path], dim=1)
    last = torch.cat([before[:, None], piece[:, :-1]], dim=1)
    return model.readout(states, last, users[:, None])


def group_loss(
    model: TwoTimeScale,
    events: Interactions,
    sequences: Sequences,
    active: bool,
    offers: OfferSettings,
    generator: torch.Generator,
) -> Callable[[Positions], Tensor]:
    """A function of the rows of some sequences: the mean loss of their events, padding left out."""
    counts = torch.from_numpy(events.popularity).to(model.device)
    strengths = events.strengths

    def loss(rows: Positions) -> Tensor:
        starts, stops = sequences.starts[rows], sequences.stops[rows]
        piece = padded(events.items, starts, stops, UNKNOWN).long().to(model.device)
        users = torch.from_numpy(sequences.users[rows]).to(model.device)
        before = items_before(events, starts).to(model.device)
        vectors = readouts(model, piece, before, users, active)
        used = piece >= 0
        weights = None
        if strengths is not None:
            weight = padded(strengths, starts, stops, 0.0).to(model.device)
            used &= weight > 0
            weights = weight[used]
        return offered(model, vectors[used], piece[used], counts, len(events), offers, generator, weights)

    return loss


def offered(
    model: TwoTimeScale,
    users: Tensor,
    targets: Tensor,
    counts: Tensor,
    n_events: int,
    offers: OfferSettings,
    generator: torch.Generator,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss of user vectors [P, D] and their targets [P] against the candidates of the batch."""
    if not len(targets):
        return users.sum() * 0.0
    some = targets
    if len(targets) > MOST_POSITIVES:
        some = targets[torch.randperm(len(targets), generator=generator)[:MOST_POSITIVES].to(targets.device)]
    candidates, log_q = mixed_negatives(some, offers.uniform, counts, n_events, generator)
    items = model.inputs()
    own_q = log_expected(targets, len(some), offers.uniform, counts, n_events)
    return offer_softmax_loss(
        users,
        items[targets],
        items[candidates],
        pos_logq=own_q if offers.correction else None,
        cand_logq=log_q if offers.correction else None,
        hit_mask=candidates[None, :] == targets[:, None],
        weights=weights,
    )


def batches_of(
    sequences: Sequences, loss: Callable[[Positions], Tensor], batch_events: int, seed: int
) -> tuple[Batches, int]:
    """Random batches of sequences of similar lengths with about `batch_events` events, and their number per epoch."""
    total = int(sequences.lengths.sum())
    size = max(round(batch_events * len(sequences) / max(total, 1)), 1)  # sequences of a batch on average

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        for rows in similar_lengths(sequences.lengths, size, np.random.default_rng((seed, epoch))):
            yield partial(loss, rows)

    return batches, max(-(-total // batch_events), 1)
