"""Ranks of the targets of evaluated events: among all items, without consumed ones, and among random negatives."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.held_out import Positions
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.online.consumed import Consumed
from shortlist.evaluate.online.online_test import OnlineTest
from shortlist.evaluate.online.predict import Predictions, ScoresAt, predict
from shortlist.metrics.negatives import keyed_negatives
from shortlist.metrics.sampled import expected_sampled_metrics
from shortlist.models.model import Model

N_NEG = 499
PAIRS = 1 << 21  # consumed items and negatives of a piece of a block
MOST_ITEMS = 1 << 24  # float32 counts exactly up to here

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OnlineRanks:
    """Ranks of targets, 1 = best: 1 + the number of items with a higher score + half of the other ties."""

    raw: Floats  # [n] among all items
    excl: Floats  # [n] without the items that the user consumed before; the target stays
    sampled: Floats  # [n] among the target and its negatives; NaN where none were drawn
    n_items: int
    n_neg: int

    def expected(self, k: int = 10) -> tuple[Floats, Floats]:
        """Expected reciprocal rank and recall@k over all draws of the negatives, 499 if none were drawn [n], [n]."""
        return expected_sampled_metrics(self.raw, self.n_items, self.n_neg or N_NEG, k)

    def at(self, rows: Positions) -> "OnlineRanks":
        """The ranks of some events."""
        return OnlineRanks(self.raw[rows], self.excl[rows], self.sampled[rows], self.n_items, self.n_neg)


def ranks(
    model: Model | ScoresAt,
    test: OnlineTest,
    n_neg: int = N_NEG,
    window: int | None = None,
    sampled_events: int | None = None,
) -> OnlineRanks:
    """The ranks of all evaluated events, in order; a NaN score is an error.

    `n_neg` negatives are sampled for all events, or for `sampled_events` random ones; 0 samples none. They depend on
    the event and the seed of the test alone, so every model gets the same ones. The last `window` items of a history
    are read by a model that is not a state model.
    """
    if not 1 <= test.n_items < MOST_ITEMS or n_neg < 0:
        raise ConfigError(f"ranks: expected 1 to 2^24 items and n_neg from 0, got {test.n_items} and {n_neg}")
    found, drawn = np.full((3, len(test)), np.nan), _drawn(test, n_neg, sampled_events)
    consumed, signs = Consumed.before(test), Signs()
    for block in predict(model, test, window):
        values = signs.of(block, test)
        consumed = consumed.to(values.device)
        for place in _pieces((test.before - test.starts)[block.rows]):
            rows = block.rows[place]
            found[:2, rows] = _full_ranks(values[place], rows, consumed)
        places = np.flatnonzero(drawn[block.rows])
        for piece in _pieces(np.full(len(places), n_neg)):
            rows = block.rows[places[piece]]
            found[2, rows] = _sampled_ranks(values, places[piece], rows, test, n_neg)
    return OnlineRanks(found[0], found[1], found[2], test.n_items, n_neg)


class Signs:
    """1 where an item has a higher score than the target of its row, -1 where lower, 0 for ties; reused memory."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def of(self, block: Predictions, test: OnlineTest) -> Tensor:
        """The signs of a block of scores [b, N]; the next call overwrites them."""
        scores = block.scores
        if tuple(scores.shape) != (len(block.rows), test.n_items):
            expected = [len(block.rows), test.n_items]
            raise DataError(f"ranks: expected scores of shape {expected}, got {list(scores.shape)}")
        if (bad := scores.amax(1).isnan()).any():  # a maximum with a NaN is NaN
            raise DataError(_nan_message(test, int(block.rows[int(bad.nonzero()[0, 0])])))
        # Sums of signs in less than 32 bits would be rounded.
        kind = torch.promote_types(scores.dtype, torch.float32)
        memory = self._memory
        if memory.dtype != kind or memory.device != scores.device or memory.numel() < scores.numel():
            self._memory = memory = torch.empty(scores.numel(), dtype=kind, device=scores.device)
        values = memory[: scores.numel()].view(scores.shape)
        targets = torch.from_numpy(test.targets[block.rows]).to(scores.device)[:, None]
        # The difference of equal infinite scores is NaN, whose sign is 0: a tie.
        return torch.sub(scores, scores.gather(1, targets), out=values).sign_()


def _full_ranks(values: Tensor, rows: Positions, consumed: Consumed) -> Floats:
    """Ranks of some rows, raw and excl [2, b], from their signs [b, N].

    With S the sum of the signs of N candidates, among them the target, the rank is (S + N + 1) / 2.
    """
    at, n_items = torch.from_numpy(rows).to(values.device), values.shape[1]
    total, (place, items) = values.sum(1), consumed.of(at)
    of_consumed = torch.zeros_like(total).scatter_add_(0, place, values.take(place * n_items + items))
    removed = consumed.counts[at] - consumed.repeated[at].long()
    excl = total - of_consumed - removed
    return (np.stack([_numbers(total), _numbers(excl)]) + n_items + 1) / 2


def _sampled_ranks(
    values: Tensor, places: Positions, rows: Positions, test: OnlineTest, n_neg: int
) -> Floats:
    """Ranks among the target and its negatives [b]; places of the rows in the signs of a block."""
    negatives = keyed_negatives(test.positions[rows], test.targets[rows], test.n_items, n_neg, test.seed)
    first = torch.from_numpy(places * test.n_items).to(values.device)[:, None]
    drawn = values.take(first + torch.from_numpy(negatives).to(values.device))
    return np.asarray((_numbers(drawn.sum(1)) + negatives.shape[1] + 2) / 2)


def _drawn(test: OnlineTest, n_neg: int, sampled_events: int | None) -> NDArray[np.bool_]:
    """Whether negatives are drawn for each event [n]: a smaller sample is part of a larger one."""
    if sampled_events is not None and sampled_events < 1:
        raise ConfigError(
            f"ranks: expected sampled_events from 1, or none for all events, got {sampled_events}"
        )
    drawn = np.full(len(test), bool(n_neg))
    if n_neg and sampled_events is not None:
        drawn[np.random.default_rng(test.seed).permutation(len(test))[sampled_events:]] = False
    return drawn


def _pieces(sizes: NDArray[np.int64]) -> Iterator[slice]:
    """Slices of rows with these numbers of pairs that fit into bounded memory."""
    filled = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        done = filled[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(filled, done + PAIRS, "right")))
        yield slice(start, stop)
        start = stop


def _numbers(values: Tensor) -> Floats:
    return np.asarray(values.cpu().numpy(), np.float64)


def _nan_message(test: OnlineTest, row: int) -> str:
    at = test.positions[row]
    return (
        f"ranks: a score before the event at position {at} (user row {test.users[row]}, item row {test.targets[row]}, "
        f"time {test.events.times[at]}) is NaN; train with a lower learning rate, or fix the model's features"
    )
