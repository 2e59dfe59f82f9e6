"""User vectors fitted to events with item vectors frozen: a convex problem for every user."""

from dataclasses import dataclass, field

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

    def loss(self, vectors: Tensor) -> Tensor:
        """The loss of each user [U]."""
        away = vectors - self.mean
        return (
            self.counts * (vectors @ self.items.T).logsumexp(1)
            - (vectors * self.sums).sum(1)
            + self.prior * (away * away).sum(1)
        )

    def gradient(self, vectors: Tensor) -> Tensor:
        """Its gradient [U, D]."""
        expected = (vectors @ self.items.T).softmax(1) @ self.items
        return self.counts[:, None] * expected - self.sums + 2 * self.prior * (vectors - self.mean)


@dataclass
class Memory:
    """The last differences of vectors and of gradients of every user, for L-BFGS."""

    pairs: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def add(self, step: Tensor, change: Tensor) -> None:
        """Remember a step [U, D] and the change of the gradient; one without curvature counts as none."""
        product = (step * change).sum(1)
        weight = torch.where(product > 1e-12, 1 / product.clamp(min=1e-12), 0.0)
        self.pairs = [*self.pairs[1 - MEMORY :], (step, change, weight)]

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


def _fit(problem: Problem, steps: int) -> Tensor:
    """L-BFGS with a step length of its own for every user, from the mean."""
    vectors = problem.mean.expand(len(problem.sums), -1).clone()
    loss, gradient, memory = problem.loss(vectors), problem.gradient(vectors), Memory()
    for number in range(steps):
        if bool((gradient.abs().amax(1) <= SMALL * problem.counts.clamp(min=1)).all()):
            break
        direction = memory.direction(gradient)
        if number == 0:
            direction = direction / (problem.counts + 2 * problem.prior)[:, None]
        slope = (direction * gradient).sum(1)
        direction = torch.where((slope > 0)[:, None], direction, gradient)
        length, after = _searched(problem, vectors, loss, direction, (direction * gradient).sum(1))
        step = -length[:, None] * direction
        vectors = vectors + step
        before, gradient = gradient, problem.gradient(vectors)
        memory.add(step, gradient - before)
        loss = after
    return vectors


def _searched(
    problem: Problem, vectors: Tensor, loss: Tensor, direction: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """The first of the lengths 1, 1/2, 1/4, .. that lowers each user's loss enough, 0 where none does; the losses."""
    length, left = torch.ones_like(loss), torch.ones_like(loss, dtype=torch.bool)
    after = loss.clone()
    for _ in range(TRIES):
        tried = problem.loss(vectors - length[:, None] * direction)
        enough = left & (tried <= loss - 1e-4 * length * slope)
        after = torch.where(enough, tried, after)
        left &= ~enough
        if not bool(left.any()):
            break
        length = torch.where(left, length / 2, length)
    return torch.where(left, 0.0, length), after
