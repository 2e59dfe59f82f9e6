"""User vectors of a state model before evaluated events: one pass through the events of every user."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data.held_out import Positions
from shortlist.errors import DataError
from shortlist.evaluate.online.online_test import OnlineTest
from shortlist.models.state_model import NO_ITEM, StateModel

CELLS = 1 << 17  # events of a batch, with padding
CELLS_ON_GPU = 1 << 20
USERS = 1 << 15  # of a batch
STEPS = 4096  # events of a user that are run through at a time


@dataclass(frozen=True, eq=False)
class VectorBatch:
    """User vectors before evaluated events."""

    rows: Positions  # [b] of the test
    vectors: Tensor  # [b, D]


@dataclass(frozen=True, eq=False)
class _Users:
    """Users of a test with the events that their states follow; their rows are first:last of the test."""

    rows: NDArray[np.int64]  # [U] -1 = without training events
    start: Positions  # [U] position after the base
    length: NDArray[np.int64]  # [U] events from there to the last evaluated one
    first: Positions  # [U]
    last: Positions  # [U]

    def take(self, at: NDArray[np.int64]) -> "_Users":
        return _Users(self.rows[at], self.start[at], self.length[at], self.first[at], self.last[at])


def state_vectors(model: StateModel, test: OnlineTest) -> Iterator[VectorBatch]:
    """The readouts of states after the base and all later events before each evaluated one; in no order of rows."""
    users = _users(model, test)
    active = model.active(_tensor(users.rows, model)).cpu().numpy()
    for group in (False, True):
        own = users.take(np.flatnonzero(active == group))
        for batch in _batches(own, CELLS if model.device.type == "cpu" else CELLS_ON_GPU):
            yield from _batch_vectors(model, test, batch, group)


def _users(model: StateModel, test: OnlineTest) -> _Users:
    first = np.flatnonzero(np.diff(test.users, prepend=-1))
    last = np.append(first[1:], len(test))
    rows = test.known_users[first]
    start = test.starts[first] + model.base_events(_tensor(rows, model)).cpu().numpy()
    if (early := test.before[first] < start).any():
        at = first[early][0]
        raise DataError(
            f"online test: user row {test.users[at]} has an evaluated event at position {test.positions[at]}, but his "
            f"vector holds the events up to {start[early][0]}; evaluate events after those that the model is trained on"
        )
    return _Users(rows, start, test.before[last - 1] - start, first, last)


def _batches(users: _Users, cells: int) -> Iterator[_Users]:
    """Users of similar lengths, at most so many events in a batch with padding."""
    order = np.argsort(users.length, kind="stable")[::-1]
    at = 0
    while at < len(order):
        size = min(USERS, max(1, cells // min(max(int(users.length[order[at]]), 1), STEPS)))
        yield users.take(order[at : at + size])
        at += size


def _batch_vectors(model: StateModel, test: OnlineTest, users: _Users, group: bool) -> Iterator[VectorBatch]:
    """One pass through the events of a batch of users of one group."""
    counts = users.last - users.first
    own = np.repeat(np.arange(len(counts)), counts)  # [b] user of each evaluated event
    rows = np.arange(len(own)) + (users.first - (counts.cumsum() - counts))[own]
    steps = test.before[rows] - users.start[own]  # [b] events that the state has followed
    row_users = _tensor(users.rows, model)
    states, longest = model.starts(row_users), int(users.length.max())
    for done in range(0, longest + 1, STEPS):
        items = _items(test, users, done, min(STEPS, longest - done))
        path = _path(model, _tensor(items, model), states, row_users, group)  # [U, L + 1, D]
        inside = (steps >= done) & (steps < done + STEPS)
        place = torch.from_numpy(own[inside]), torch.from_numpy(steps[inside] - done)
        last = _tensor(_last_items(test, rows[inside]), model)
        yield VectorBatch(rows[inside], model.readout(path[place], last, row_users[place[0]]))
        states = path[:, -1]


def _items(test: OnlineTest, users: _Users, done: int, width: int) -> NDArray[np.int64]:
    """Items of users from event `done` after the base on [U, width], -1 after the last."""
    at = users.start[:, None] + done + np.arange(width)  # [U, L]
    inside = at < (users.start + users.length)[:, None]
    return np.where(inside, test.events.items[np.where(inside, at, 0)], NO_ITEM).astype(np.int64)


def _path(model: StateModel, items: Tensor, states: Tensor, users: Tensor, group: bool) -> Tensor:
    """States before the first event and after each one [U, L + 1, D]; padding only follows events."""
    if not items.shape[1]:
        return states[:, None]
    weights = model.recurrence(group)
    given = model.inputs()[items.clamp(min=0)]  # [U, L, D]
    if weights.w_input.shape[1] > given.shape[-1]:
        given = torch.cat([given, model.personal(users)[:, None].expand_as(given)], dim=-1)
    tensors = [weights.w_input, weights.w_state, weights.b_input, weights.b_state]
    path = torch.gru(given, states[None].contiguous(), tensors, True, 1, 0.0, False, False, True)[0]
    return torch.cat([states[:, None], path], dim=1)


def _last_items(test: OnlineTest, rows: Positions) -> NDArray[np.int64]:
    """The item before each event, -1 for none [b]."""
    before = test.before[rows]
    items = test.events.items[np.maximum(before - 1, 0)]
    return np.where(before > test.starts[rows], items, NO_ITEM).astype(np.int64)


def _tensor(values: NDArray[np.int64], model: StateModel) -> Tensor:
    return torch.from_numpy(values).to(model.device)
