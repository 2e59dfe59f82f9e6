"""Scores of all items before every evaluated event, block by block."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from shortlist.data.held_out import Positions
from shortlist.errors import ConfigError
from shortlist.evaluate.online.online_test import OnlineTest
from shortlist.evaluate.online.state_vectors import VectorBatch, state_vectors
from shortlist.models.model import Model, VectorModel
from shortlist.models.state_model import StateModel

CELLS = 1 << 21  # scores of a block
READ = 1 << 17  # items of histories that a model reads at a time
ROWS = 2048  # histories of a batch
ON_GPU = 16  # times as many scores and histories; kernels of attention allow fewer than 2^16 of them
READ_ON_GPU = 4  # times as many items: attention takes memory for pairs of them


@runtime_checkable
class ScoresAt(Protocol):
    """Scores that depend on more than a history: the popularity of a day, or a simulated world."""

    def scores_at(self, test: OnlineTest, rows: Positions) -> Tensor:
        """Scores of all items before the events `rows` of a test [b, N]; rows come in the order of time."""
        ...


@dataclass(frozen=True, eq=False)
class Predictions:
    """Scores before evaluated events; the next block may be written to the same memory."""

    rows: Positions  # [b] of the test
    scores: Tensor  # [b, N]


def predict(model: Model | ScoresAt, test: OnlineTest, window: int | None = None) -> Iterator[Predictions]:
    """Scores of all items before each event of a test, every event once, in no order of rows.

    A state model follows the events of each user from its base. Another model reads the last `window` items of the
    history, at most its `max_history`. Users without training events are unknown (-1) to both.
    """
    if isinstance(model, Model):
        model.check_catalogue(test.n_items)
        yield from _of_model(model, test, window)
        return
    order, size = np.argsort(test.events.times[test.positions], kind="stable"), _block_rows(test.n_items)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        with torch.no_grad():
            scores = model.scores_at(test, rows)
        yield Predictions(rows, scores)


@torch.no_grad()
def user_vectors(model: VectorModel, test: OnlineTest, window: int | None = None) -> Iterator[VectorBatch]:
    """User vectors before each event of a test, every event once, in no order of rows."""
    with evaluating(model):
        if isinstance(model, StateModel):
            yield from state_vectors(model, test)
            return
        for rows, history, user in _histories(model, test, window, ROWS):
            yield VectorBatch(rows, model.users(history, user))


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Eval mode; the mode from before is restored."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@torch.no_grad()
def _of_model(model: Model, test: OnlineTest, window: int | None) -> Iterator[Predictions]:
    if isinstance(model, VectorModel):
        yield from _products(user_vectors(model, test, window), model.vectors())
        return
    with evaluating(model):
        for rows, history, user in _histories(model, test, window, CELLS // max(test.n_items, 1)):
            yield Predictions(rows, model.scores(history, user))


def _products(batches: Iterator[VectorBatch], items: Tensor) -> Iterator[Predictions]:
    """Inner products with all items; one block of memory serves all."""
    size = _block_rows(len(items), items.device)
    memory = torch.empty(size, len(items), device=items.device)
    columns = items.float().T
    for batch in batches:
        for start in range(0, len(batch.rows), size):
            users = batch.vectors[start : start + size].float()
            scores = torch.mm(users, columns, out=memory[: len(users)])
            yield Predictions(batch.rows[start : start + size], scores)


def _histories(
    model: Model, test: OnlineTest, window: int | None, most_rows: int
) -> Iterator[tuple[Positions, Tensor, Tensor]]:
    """Rows, histories and users of batches of events whose histories have similar lengths."""
    if window is not None and window < 0:
        raise ConfigError(f"predict: expected a window of 0 items or more, got {window}")
    widest = model.config.max_history if window is None else min(window, model.config.max_history)
    lengths = np.minimum(test.before - test.starts, widest)
    order = np.argsort(lengths, kind="stable")
    read, end = READ * _factor(model.device, READ_ON_GPU), len(order)
    most_rows = max(1, min(most_rows, ROWS) * _factor(model.device, ON_GPU))
    while end:  # the longest first: the width of a batch is that of its first history
        width = int(lengths[order[end - 1]])
        start = max(0, end - min(most_rows, max(1, read // max(width, 1))))
        rows, end = order[start:end], start
        history = torch.from_numpy(test.histories(rows, width)).to(model.device)
        yield rows, history, torch.from_numpy(test.known_users[rows]).to(model.device)


def _block_rows(n_items: int, device: torch.device | None = None) -> int:
    """Rows of a block of scores."""
    return max(1, CELLS * _factor(device, ON_GPU) // max(n_items, 1))


def _factor(device: torch.device | None, on_gpu: int) -> int:
    """Work that an accelerator does at a time, in that of a CPU."""
    return 1 if device is None or device.type == "cpu" else on_gpu
