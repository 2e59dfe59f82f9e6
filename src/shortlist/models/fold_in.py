"""User vectors fitted to events with item vectors frozen: a convex problem for every user."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

STEPS = 50  # of L-BFGS
MEMORY = 6  # pairs of differences it remembers
TRIES = 12  # halvings of a step
CELLS = 1 << 23  # scores in memory at a time
SMALL = 1e-5  # gradient per event at which a user is done


@torch.no_grad()
def fold_in(
    sums: Tensor, counts: Tensor, items: Tensor, mean: Tensor, prior: float, steps: int = STEPS
) -> Tensor:
    """The vectors that minimise the softmax loss of each user's events plus prior * |vector - mean|^2 [U, D].

    `sums` [U, D] are the sums of the item vectors of the events of each user, `counts` [U] their number: the loss of a
    user, counts * logsumexp(items @ v) - v @ sums, needs no more of the events. With prior > 0 it is strictly convex.
    """
    size = max(CELLS // max(len(items), 1), 1)
    parts = [
        _fit(Problem(sums[at : at + size], counts[at : at + size].to(items.dtype), items, mean, prior), steps)
        for at in range(0, len(sums), size)
    ]
    return torch.cat(parts) if parts else sums.clone()


def sums_of(rows: Tensor, vectors: Tensor, lengths: Tensor, weights: Tensor | None = None) -> Tensor:
    """Sums of item vectors over consecutive groups of events: item rows [E], group lengths [U] -> [U, D].

    `weights` [E] multiply the vectors.
    """
    sums = vectors.new_zeros(len(lengths), vectors.shape[1])
    group = torch.repeat_interleave(torch.arange(len(lengths), device=rows.device), lengths)
    size = CELLS // vectors.shape[1]
    for at in range(0, len(rows), size):
        part = vectors[rows[at : at + size]]
        part = part if weights is None else part * weights[at : at + size, None]
        sums.index_add_(0, group[at : at + size], part)
    return sums


@dataclass(frozen=True, eq=False)
class Problem:
    """The losses of a batch of users."""

    sums: Tensor  # [U, D]
    counts: Tensor  # [U]
    items: Tensor  # [N, D]
    mean: Tensor  # [D]
    prior: float

    def at(self, rows: Tensor) -> "Problem":
        """The problem of some users, by their rows or a mask."""
        return replace(self, sums=self.sums[rows], counts=self.counts[rows])

    def value(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each user [U] and its gradient [U, D]."""
        scores = vectors @ self.items.T  # [U, N]
        largest = scores.amax(1, keepdim=True)
        total = scores.sub_(largest).exp_().sum(1, keepdim=True)
        expected = (scores @ self.items) / total
        away = vectors - self.mean
        loss = (
            self.counts * (total.log() + largest)[:, 0]
            - (vectors * self.sums).sum(1)
            + self.prior * (away * away).sum(1)
        )
        return loss, self.counts[:, None] * expected - self.sums + 2 * self.prior * away


@dataclass
class Memory:
    """The last differences of vectors and of gradients of every user, for L-BFGS."""

    pairs: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def add(self, step: Tensor, change: Tensor) -> None:
        """Remember a step [U, D] and the change of the gradient; one without curvature counts as none."""
        product = (step * change).sum(1)
        weight = torch.where(product > 1e-12, 1 / product.clamp(min=1e-12), 0.0)
        self.pairs = [*self.pairs[1 - MEMORY :], (step, change, weight)]

    def at(self, rows: Tensor) -> "Memory":
        """The differences of some users."""
        return Memory([(step[rows], change[rows], weight[rows]) for step, change, weight in self.pairs])

    def direction(self, gradient: Tensor) -> Tensor:
        """The gradient times an estimate of the inverse Hessian, by the two loops [U, D]."""
        found, used = gradient.clone(), []
        for step, change, weight in reversed(self.pairs):
            share = weight * (step * found).sum(1)
            found -= share[:, None] * change
            used.append(share)
        if self.pairs:
            step, change, weight = self.pairs[-1]
            scale = (step * change).sum(1) / (change * change).sum(1).clamp(min=1e-12)
            found *= torch.where(weight > 0, scale, 1.0)[:, None]
        for (step, change, weight), share in zip(self.pairs, reversed(used), strict=True):
            found += (share - weight * (change * found).sum(1))[:, None] * step
        return found


@dataclass(frozen=True, eq=False)
class Place:
    """Vector, loss and gradient of each user in the search."""

    vectors: Tensor  # [U, D]
    loss: Tensor  # [U]
    gradient: Tensor  # [U, D]

    def at(self, rows: Tensor) -> "Place":
        """Those of some users."""
        return Place(self.vectors[rows], self.loss[rows], self.gradient[rows])

    def put(self, rows: Tensor, other: "Place") -> None:
        """Replace those of some users."""
        self.vectors[rows], self.loss[rows], self.gradient[rows] = other.vectors, other.loss, other.gradient


def _fit(problem: Problem, steps: int) -> Tensor:
    """L-BFGS with a step length of its own for every user, from the mean; users who are done are left out."""
    found = problem.mean.expand(len(problem.sums), -1).clone()
    users, memory = torch.arange(len(found), device=found.device), Memory()
    place = Place(found, *problem.value(found))
    moved = torch.ones_like(users, dtype=torch.bool)
    for number in range(steps):
        going = moved & (place.gradient.abs().amax(1) > SMALL * problem.counts.clamp(min=1))
        if not bool(going.all()):
            users, problem, place, memory = users[going], problem.at(going), place.at(going), memory.at(going)
        if not len(users):
            break
        before, (place, moved) = place, _moved(problem, place, _direction(problem, place, memory, number))
        memory.add(place.vectors - before.vectors, place.gradient - before.gradient)
        found[users] = place.vectors
    return found


def _direction(problem: Problem, place: Place, memory: Memory, number: int) -> Tensor:
    """The direction whose negative lowers the loss of each user: that of L-BFGS, or the gradient [U, D]."""
    direction = memory.direction(place.gradient)
    if number == 0:
        direction = direction / (problem.counts + 2 * problem.prior)[:, None]
    slope = (direction * place.gradient).sum(1)
    return torch.where((slope > 0)[:, None], direction, place.gradient)


def _moved(problem: Problem, place: Place, direction: Tensor) -> tuple[Place, Tensor]:
    """Every user at the first of the lengths 1, 1/2, 1/4, .. that lowers the loss enough, and whether there is one."""
    left, slope = torch.arange(len(direction), device=direction.device), (direction * place.gradient).sum(1)
    after, moved = place.at(left), torch.zeros_like(left, dtype=torch.bool)
    for halvings in range(TRIES):
        length = 0.5**halvings
        vectors = place.vectors[left] - length * direction[left]
        tried = Place(vectors, *problem.at(left).value(vectors))
        enough = tried.loss <= place.loss[left] - 1e-4 * length * slope[left]
        after.put(left[enough], tried.at(enough))
        moved[left[enough]] = True
        left = left[~enough]
        if not len(left):
            break
    return after, moved
