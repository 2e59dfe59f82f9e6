"""How far the states of users move with every event: step norms, and how much the distribution over items changes."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.data import UNKNOWN, Interactions
from shortlist.models.state_model import StateModel

USERS = 200  # whose paths are followed, in each group
LONGEST = 200  # events of a path
AT = (1, 2, 3, 5, 10, 20, 50, 100, 200)  # numbers of events that are reported
BLOCK = 1 << 24  # probabilities in memory at a time


@torch.no_grad()
def step_paths(model: StateModel, events: Interactions, as_new: bool = False) -> dict[str, Any]:
    """Mean step sizes by the number of events since the base, of active users and of all others.

    `as_new` follows active users by the recurrence of new ones. Of each group the users with the most events
    since the base are followed.
    """
    users = torch.arange(events.n_users, device=model.device)
    active = model.active(users)
    read = torch.full_like(users, UNKNOWN) if as_new else users
    lengths = torch.from_numpy(events.lengths.copy()).to(model.device) - model.base_events(read)
    found = {}
    for name, group in (("active", active), ("inactive", ~active)):
        own = users[group & (lengths > 1)]
        if not len(own) or (as_new and name == "inactive"):
            continue
        chosen = own[lengths[own].argsort(descending=True, stable=True)[:USERS]]
        found[f"{name}, as new" if as_new else name] = _path(model, events, chosen, read[chosen])
    return found


def _path(model: StateModel, events: Interactions, users: Tensor, read: Tensor) -> dict[str, Any]:
    """Step sizes after each event of AT, means over the users who have it."""
    rows = users.cpu().numpy()
    base = model.base_events(read).cpu().numpy()
    starts, stops = events.starts[rows] + base, events.starts[rows + 1]
    states, last = model.starts(read), torch.full_like(read, UNKNOWN)
    vectors = model.readout(states, last, read)
    steps: dict[str, list[float]] = {"k": [], "users": [], "norm": [], "relative": [], "total variation": []}
    for number in range(min(LONGEST, int((stops - starts).max()))):
        at = np.where(starts + number < stops, starts + number, -1)
        items = torch.from_numpy(np.where(at >= 0, events.items[at], UNKNOWN).astype(np.int64)).to(
            users.device
        )
        after = model.step(states, items, read)
        last = torch.where(items >= 0, items, last)
        moved = model.readout(after, last, read)
        if number + 1 in AT:
            own = (items >= 0).nonzero()[:, 0]
            _add(steps, number + 1, model, states[own], after[own], vectors[own], moved[own])
        states, vectors = after, moved
    return steps


def _add(
    steps: dict[str, list[float]],
    number: int,
    model: StateModel,
    states: Tensor,
    after: Tensor,
    vectors: Tensor,
    moved: Tensor,
) -> None:
    if not len(states):
        return
    norm = (after - states).norm(dim=1)
    before = states.norm(dim=1)
    relative = (norm / before)[before > 0]
    steps["k"].append(number)
    steps["users"].append(len(states))
    steps["norm"].append(float(norm.mean()))
    steps["relative"].append(float(relative.mean()) if len(relative) else float("nan"))
    steps["total variation"].append(float(_total_variation(vectors, moved, model.vectors()).mean()))


def _total_variation(one: Tensor, other: Tensor, items: Tensor) -> Tensor:
    """Half the summed absolute difference of the softmax over all items [U]."""
    size = max(BLOCK // max(len(items), 1), 1)
    parts = [
        ((one[at : at + size] @ items.T).softmax(1) - (other[at : at + size] @ items.T).softmax(1))
        .abs()
        .sum(1)
        for at in range(0, len(one), size)
    ]
    return torch.cat(parts) / 2
