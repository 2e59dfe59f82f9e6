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

PAIRS = 1 << 21  # consumed items, or negatives, of a block
MOST_ITEMS = 1 << 24  # float32 counts exactly up to here

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OnlineRanks:
    """Ranks of targets, 1 = best: 1 + the number of items with a higher score + half of the other ties."""

    raw: Floats  # [n] among all items
    excl: Floats  # [n] without the items that the user consumed before; the target stays
    sampled: Floats  # [n] among the target and its negatives; NaN if none were drawn
    n_items: int
    n_neg: int

    def expected(self, k: int = 10) -> tuple[Floats, Floats]:
        """The expected reciprocal rank and recall@k over all draws of the negatives [n], [n]."""
        return expected_sampled_metrics(self.raw, self.n_items, self.n_neg or 499, k)

    def at(self, rows: Positions) -> "OnlineRanks":
        """The ranks of some events."""
        return OnlineRanks(self.raw[rows], self.excl[rows], self.sampled[rows], self.n_items, self.n_neg)


def ranks(
    model: Model | ScoresAt, test: OnlineTest, n_neg: int = 499, window: int | None = None
) -> OnlineRanks:
    """The ranks of all evaluated events; `n_neg` negatives are drawn by position and seed, 0 for none.

    The last `window` items of a history are read by a model that is not a state model.
    """
    if not 1 <= test.n_items < MOST_ITEMS or n_neg < 0:
        raise ConfigError(f"ranks: expected 1 to 2^24 items and n_neg from 0, got {test.n_items} and {n_neg}")
    found = np.full((3, len(test)), np.nan)
    consumed = Consumed.before(test)
    signs = Signs()
    for block in predict(model, test, window):
        signs.of(block, test)
        for place in _pieces(block.rows, consumed, n_neg):
            found[:, block.rows[place]] = _block_ranks(signs, block.rows, place, test, consumed, n_neg)
    return OnlineRanks(found[0], found[1], found[2], test.n_items, n_neg)


class Signs:
    """1 where an item has a higher score than the target of its row, -1 where lower, 0 for ties; reused memory."""

    def __init__(self) -> None:
        self.values = torch.empty(0, 0)  # [b, N]

    def of(self, block: Predictions, test: OnlineTest) -> None:
        """Compute the signs of a block of scores."""
        scores = block.scores
        if tuple(scores.shape) != (len(block.rows), test.n_items):
            expected = [len(block.rows), test.n_items]
            raise DataError(f"ranks: expected scores of shape {expected}, got {list(scores.shape)}")
        if (bad := scores.amax(1).isnan()).any():  # a maximum with a NaN is NaN
            raise DataError(_nan_message(test, int(block.rows[int(bad.nonzero()[0, 0])])))
        if self.values.dtype != scores.dtype or self.values.numel() < scores.numel():
            self._memory = torch.empty(scores.numel(), dtype=scores.dtype, device=scores.device)
        targets = torch.from_numpy(test.targets[block.rows]).to(scores.device)[:, None]
        self.values = self._memory[: scores.numel()].view(scores.shape)
        # The difference of equal infinite scores is NaN, whose sign is 0: a tie.
        torch.sub(scores, scores.gather(1, targets), out=self.values).sign_()


def _block_ranks(
    signs: Signs, rows: Positions, place: slice, test: OnlineTest, consumed: Consumed, n_neg: int
) -> Floats:
    """Ranks of some rows of a block: raw, excl, sampled [3, b].

    With S the sum of the signs of N candidates, among them the target, the rank is (S + N + 1) / 2.
    """
    values, rows = signs.values[place], rows[place]
    total, n_items = _numbers(values.sum(1)), test.n_items
    where, items = consumed.of(rows)
    flat = torch.from_numpy(where * n_items + items).to(values.device)
    of_consumed = np.bincount(where, _numbers(values.take(flat)), len(rows))
    removed = consumed.counts(rows) - consumed.repeated[rows]
    excl = (total - of_consumed + n_items - removed + 1) / 2
    return np.stack([(total + n_items + 1) / 2, excl, _sampled(values, rows, test, n_neg)])


def _sampled(values: Tensor, rows: Positions, test: OnlineTest, n_neg: int) -> Floats:
    """Ranks among the target and its negatives [b]."""
    if not n_neg:
        return np.full(len(rows), np.nan)
    negatives = keyed_negatives(test.positions[rows], test.targets[rows], test.n_items, n_neg, test.seed)
    drawn = values.gather(1, torch.from_numpy(negatives).to(values.device))
    return np.asarray((_numbers(drawn.sum(1)) + negatives.shape[1] + 2) / 2)


def _pieces(rows: Positions, consumed: Consumed, n_neg: int) -> Iterator[slice]:
    """Slices of a block whose consumed items and negatives fit into bounded memory."""
    filled = np.cumsum(consumed.counts(rows) + n_neg)
    start = 0
    while start < len(rows):
        done = filled[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(filled, done + PAIRS, "right")))
        yield slice(start, stop)
        start = stop


def _numbers(values: Tensor) -> Floats:
    return np.asarray(values.cpu().numpy(), np.float64)


def _nan_message(test: OnlineTest, row: int) -> str:
    at = test.positions[row]
    return (
        f"ranks: a score before the event at position {at} (user row {test.users[row]}, item row "
        f"{test.targets[row]}, time {test.events.times[at]}) is NaN; train with a lower learning rate, or fix the "
        "model's features"
    )
