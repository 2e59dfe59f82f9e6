"""Items to owners with bounded load: the largest sum of weights."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from shortlist.errors import ConfigError

Floats = NDArray[np.float64]
Owners = NDArray[np.int64]
EXACT = 5000  # items up to which the assignment is optimal
PASSES = 100


def assign(weights: Floats, room: int) -> Owners:
    """The owner of every item [A] for weights [N, A], at most `room` items each."""
    n_owners, n_items = weights.shape
    if n_owners * room < n_items:
        raise ConfigError(f"pools: {n_owners} pools of at most {room} items cannot hold {n_items}")
    free: Owners = weights.argmax(0)
    if np.bincount(free, minlength=n_owners).max() <= room:
        return free
    return assign_exactly(weights, room) if n_items <= EXACT else assign_by_swaps(weights, room)


def assign_exactly(weights: Floats, room: int) -> Owners:
    """The optimum: every owner is as many columns as it has room."""
    rows, columns = linear_sum_assignment(np.repeat(weights, room, axis=0).T, maximize=True)
    owners = np.empty(weights.shape[1], dtype=np.int64)
    owners[rows] = columns // room
    return owners


def assign_by_swaps(weights: Floats, room: int) -> Owners:
    """Items with the clearest choice first, then exchanges between two owners until none gains."""
    owners = _greedily(weights, room)
    for _ in range(PASSES):
        gains = [
            _exchange(weights, owners, one, other, room)
            for one in range(len(weights))
            for other in range(one + 1, len(weights))
        ]
        if not any(gains):
            break
    return owners


def _greedily(weights: Floats, room: int) -> Owners:
    n_owners, n_items = weights.shape
    best_two = np.sort(weights, axis=0)[-2:]
    owners = np.empty(n_items, dtype=np.int64)
    left = np.full(n_owners, room)
    for item in np.argsort(best_two[0] - best_two[-1], kind="stable"):
        owners[item] = np.argmax(np.where(left > 0, weights[:, item], -np.inf))
        left[owners[item]] -= 1
    return owners


def _exchange(weights: Floats, owners: Owners, one: int, other: int, room: int) -> bool:
    """Move items between two owners as long as the sum of their weights grows; whether any moved."""
    there, back = np.flatnonzero(owners == one), np.flatnonzero(owners == other)
    gain_there = weights[other, there] - weights[one, there]
    gain_back = weights[one, back] - weights[other, back]
    there, gain_there = _largest_first(there, gain_there)
    back, gain_back = _largest_first(back, gain_back)
    pairs = min(len(there), len(back))
    count = int((gain_there[:pairs] + gain_back[:pairs] > 1e-12).sum())
    moves = np.array([count, count])
    rest_there, rest_back = gain_there[count:], gain_back[count:]
    moves[0] += min(int((rest_there > 1e-12).sum()), max(room - len(back), 0))
    moves[1] += min(int((rest_back > 1e-12).sum()), max(room - len(there), 0))
    owners[there[: moves[0]]], owners[back[: moves[1]]] = other, one
    return bool(moves.any())


def _largest_first(items: Owners, gains: Floats) -> tuple[Owners, Floats]:
    order = np.argsort(-gains, kind="stable")
    return items[order], gains[order]
