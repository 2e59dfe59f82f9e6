"""Items to owners with bounded load: the largest sum of weights.

Owners are few and items many, so the optimum is found on a graph of owners instead of a matrix of items by places:
prices spread the items, and cycles of moves that gain are made until there is none (Klein, 1967).
"""

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError

Floats = NDArray[np.float64]
Owners = NDArray[np.int64]
SWEEPS = 100  # of prices, which only have to come near
LEAST_GAIN = 1e-10


def assign(weights: Floats, room: int) -> Owners:
    """The owner of every item [A] for weights [N, A], at most `room` items each; the sum of weights is largest."""
    n_owners, n_items = weights.shape
    if n_owners * room < n_items:
        raise ConfigError(f"pools: {n_owners} pools of at most {room} items cannot hold {n_items}")
    free: Owners = weights.argmax(0)
    if np.bincount(free, minlength=n_owners).max() <= room:
        return free
    owners = _greedily(weights - _prices(weights, room)[:, None], room)
    graph = _Graph(weights, owners, room)
    while (cycle := graph.gaining_cycle()) is not None:
        graph.move(cycle)
    return owners


def _prices(weights: Floats, room: int) -> Floats:
    """Prices of owners, raised as long as more than `room` items prefer one (Kelso and Crawford, 1982)."""
    prices = np.zeros(len(weights))
    for _ in range(SWEEPS):
        raised = False
        for own in range(len(weights)):
            others = np.delete(weights - prices[:, None], own, axis=0).max(0, initial=-np.inf)
            margin = weights[own] - others
            if int((margin > prices[own] + LEAST_GAIN).sum()) > room:
                prices[own] = np.partition(margin, len(margin) - room - 1)[len(margin) - room - 1]
                raised = True
        if not raised:
            break
    return prices


def _greedily(weights: Floats, room: int) -> Owners:
    """Items with the clearest choice first, each to the best owner with room."""
    best_two = np.sort(weights, axis=0)[-2:]
    owners = np.empty(weights.shape[1], dtype=np.int64)
    left = np.full(len(weights), room)
    for item in np.argsort(best_two[0] - best_two[-1], kind="stable"):
        owners[item] = np.argmax(np.where(left > 0, weights[:, item], -np.inf))
        left[owners[item]] -= 1
    return owners


class _Graph:
    """What the best move between any two owners gains; the last node stands for places that are free."""

    def __init__(self, weights: Floats, owners: Owners, room: int) -> None:
        self.weights, self.owners, self.room = weights, owners, room
        size = len(weights) + 1
        self.gains = np.full((size, size), -np.inf)  # of a move from the row to the column
        self.items = np.full((size, size), -1)  # that moves
        self.gains[-1, :-1] = 0.0
        for owner in range(len(weights)):
            self._look(owner)

    def _look(self, owner: int) -> None:
        """The best moves away from an owner, and whether it has a free place."""
        own = np.flatnonzero(self.owners == owner)
        self.gains[owner] = -np.inf
        if len(own):
            gains = self.weights[:, own] - self.weights[owner, own]
            best = gains.argmax(1)
            self.gains[owner, :-1], self.items[owner, :-1] = gains[np.arange(len(gains)), best], own[best]
        self.gains[owner, owner] = -np.inf
        self.gains[owner, -1] = 0.0 if len(own) < self.room else -np.inf

    def gaining_cycle(self) -> list[int] | None:
        """Nodes of a cycle whose moves gain in sum, None if there is none: then the assignment is best."""
        size = len(self.gains)
        best, before = np.zeros(size), np.full(size, -1)
        for _ in range(size):
            reached = best[:, None] + self.gains
            source, value = reached.argmax(0), reached.max(0)
            better = value > best + LEAST_GAIN
            if not better.any():
                return None
            best, before = np.where(better, value, best), np.where(better, source, before)
        return _cycle_before(int(np.flatnonzero(better)[0]), before)

    def move(self, cycle: list[int]) -> None:
        """Make the moves of a cycle."""
        last = len(self.gains) - 1
        moves = [
            (self.items[one, other], other)
            for one, other in zip(cycle, cycle[1:] + cycle[:1], strict=True)
            if last not in (one, other)
        ]
        for item, owner in moves:
            self.owners[item] = owner
        for owner in cycle:
            if owner != last:
                self._look(owner)


def _cycle_before(node: int, before: Owners) -> list[int]:
    """The cycle that a walk against the improvements ends in, in the direction of the moves."""
    for _ in range(len(before)):
        node = int(before[node])
    cycle = [node]
    while (node := int(before[node])) != cycle[0]:
        cycle.append(node)
    return cycle[::-1]
