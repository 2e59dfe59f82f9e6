"""Ranks of held-out events, each predicted from all events of its user before it: one pass along every user."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import UNKNOWN, HeldOut, Interactions
from shortlist.models.model import without_repeats
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.train.loop.validation import LIKELIHOOD, REPEATS, parse_metric
from shortlist.train.two_time_scale.recurrence import readouts
from shortlist.train.two_time_scale.sequences import Positions, items_before, padded

CELLS = 1 << 22  # scores, or consumed items, of a block
STEPS = 1 << 17  # events of a batch, with padding
MOST_EVENTS = 20  # of a request
OFTEN = 0.05  # share of repeated pairs from which items of the history are candidates too

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Batch:
    """Held-out requests of users of one group, and their events that are predicted."""

    piece: Tensor  # [B, L] items after the base, padding last
    before: Tensor  # [B] item before the first of them, -1 = none
    users: Tensor  # [B] -1 = read as new
    active: bool
    seen: Tensor  # [B, H] distinct items of the whole sequence, -1 = padding or repeated
    row: Tensor  # [e] sequence of each event
    place: Tensor  # [e] its place in `piece`
    number: Tensor  # [e] events before it, the base among them
    targets: Tensor  # [e]
    order: Positions  # [e] its place in the result


class EventRanks:
    """Computes the ranks of the first `MOST_EVENTS` events of each request, in their order.

    `as_new` reads every user from the common start. With `repeats` items of the history are candidates; without, they
    are left out, except for the target.
    """

    def __init__(self, model: TwoTimeScale, requests: HeldOut, as_new: bool, repeats: bool) -> None:
        self.model, self.repeats = model, repeats
        stops = np.minimum(requests.stops, requests.cuts + MOST_EVENTS)
        self.requests = HeldOut(requests.events, requests.starts, requests.cuts, stops)
        self.lengths = stops - requests.cuts
        self.batches = list(self._batches(as_new))

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of each event [E]."""
        return np.repeat(self.requests.users, self.lengths)

    def __call__(self) -> Floats:
        """The ranks of all events by the model as it is now [E]."""
        return self._of_events(self._rank)

    def log_likelihoods(self) -> Floats:
        """The log probabilities of all events in a softmax over all items [E]."""
        return self._of_events(_log_likelihood)

    @torch.no_grad()
    def _of_events(self, value: Callable[[Tensor, _Batch, slice], Tensor]) -> Floats:
        """A value of the scores of each event [E]."""
        found = np.empty(int(self.lengths.sum()))
        items = self.model.vectors()
        for batch in self.batches:
            vectors = readouts(self.model, batch.piece, batch.before, batch.users, batch.active)
            events = vectors[batch.row, batch.place]  # [e, D]
            size = max(CELLS // max(len(items), batch.seen.shape[1]), 1)
            parts = [slice(at, at + size) for at in range(0, len(events), size)]
            values = torch.cat([value(events[part] @ items.T, batch, part) for part in parts])
            found[batch.order] = values.double().cpu().numpy()
        return found

    def _batches(self, as_new: bool) -> Iterator[_Batch]:
        """Batches of users of one group and of similar lengths."""
        part, device = self.requests, self.model.device
        users = np.full(len(part), UNKNOWN) if as_new else part.users
        base = self.model.base_events(torch.from_numpy(users).to(device)).cpu().numpy()
        users = np.where(base > part.history_lengths(), UNKNOWN, users)  # not the history of that user
        active = self.model.active(torch.from_numpy(users).to(device)).cpu().numpy()
        starts = part.starts + np.where(active, base, 0)
        offsets = self.lengths.cumsum() - self.lengths
        for group in (False, True):
            rows = np.flatnonzero(active == group)
            rows = rows[np.argsort((part.stops - part.starts)[rows], kind="stable")]
            while len(rows):
                size = max(STEPS // int((part.stops - part.starts)[rows[-1]]), 1)
                rows, chosen = rows[:-size], rows[-size:]
                yield self._batch(chosen, starts[chosen], users[chosen], offsets[chosen], group)

    def _batch(
        self, rows: Positions, starts: Positions, users: Positions, offsets: Positions, active: bool
    ) -> _Batch:
        part, items, device = self.requests.take(rows), self.requests.events.items, self.model.device
        lengths = self.lengths[rows]
        row = np.repeat(np.arange(len(rows)), lengths)
        nth = np.arange(len(row)) - np.repeat(lengths.cumsum() - lengths, lengths)
        at = part.cuts[row] + nth
        seen = padded(items, part.starts, part.stops, UNKNOWN).long()
        return _Batch(
            piece=padded(items, starts, part.stops, UNKNOWN).long().to(device),
            before=torch.from_numpy(items_before(part.events, starts)).to(device),
            users=torch.from_numpy(users.astype(np.int64)).to(device),
            active=active,
            seen=without_repeats(seen).to(device),
            row=torch.from_numpy(row).to(device),
            place=torch.from_numpy(at - starts[row]).to(device),
            number=torch.from_numpy(at - part.starts[row]).to(device),
            targets=torch.from_numpy(items[at].astype(np.int64)).to(device),
            order=offsets[row] + nth,
        )

    def _rank(self, scores: Tensor, batch: _Batch, some: slice) -> Tensor:
        """Ranks of some events by their scores [b, N]: ties count half."""
        target = batch.targets[some, None]
        own = scores.gather(1, target)
        rank = 1 + (scores > own).sum(1) + ((scores == own).sum(1) - 1) / 2
        if self.repeats:
            return rank
        seen = batch.seen[batch.row[some]]  # [b, H]
        earlier = torch.arange(seen.shape[1], device=seen.device) < batch.number[some, None]
        counted = earlier & (seen >= 0) & (seen != target)
        consumed = scores.gather(1, seen.clamp(min=0))
        better = (consumed > own).float() + 0.5 * (consumed == own)
        return rank - torch.where(counted, better, 0.0).sum(1)


def _log_likelihood(scores: Tensor, batch: _Batch, some: slice) -> Tensor:
    return scores.log_softmax(1).gather(1, batch.targets[some, None])[:, 0]


def event_metric(
    model: TwoTimeScale,
    valid: HeldOut | None,
    as_new: bool,
    repeats: bool,
    metric: str,
    users: int,
    seed: int,
) -> Callable[[], float] | None:
    """A function that computes a metric over the held-out events of some random users; None without any."""
    name, k = parse_metric(metric)
    if valid is None or not len(valid):
        return None
    chosen = valid.take(np.sort(np.random.default_rng(seed).permutation(len(valid))[:users]))
    ranks = EventRanks(model, chosen, as_new, repeats or metric.endswith(REPEATS))

    def value() -> float:
        if metric == LIKELIHOOD:
            return float(np.exp(ranks.log_likelihoods().mean()))
        found = ranks()
        gain = 1 / np.log2(1 + found) if name == "ndcg" else np.ones(len(found))
        return float(np.where(found <= k, gain, 0.0).mean())

    return value


def has_repeats(events: Interactions) -> bool:
    """Whether users often interact with an item again."""
    if not len(events):
        return False
    pairs = events.users.astype(np.int64) * events.n_items + events.items
    return len(np.unique(pairs)) < (1 - OFTEN) * len(pairs)
