"""Excess risk of online descent from several starts with several step sizes."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from shortlist.errors import ConfigError
from shortlist.simulate.online.offline import draw_events
from shortlist.simulate.online.world import Floats, OnlineWorld

NUMBERS = 1 << 18  # of one coordinate in a block, so that it stays in the cache of the processor


def excess_surface(world: OnlineWorld, starts: Floats, steps: Floats, rng: np.random.Generator) -> Floats:
    """Mean excess risk [S, G] over users and rounds, from starts [S, U, D] with step sizes [G].

    All starts and step sizes meet the same events, so their differences have little noise. A loss is the expectation
    over the click given the item; the step uses the drawn click.
    """
    if starts.ndim != 3 or starts.shape[1:] != world.users.shape or not (steps > 0).all():
        raise ConfigError(
            f"excess risk: expected starts [S, {', '.join(map(str, world.users.shape))}] and step sizes > 0, got "
            f"{list(starts.shape)} and {steps.tolist()}"
        )
    events = [draw_events(world, rng) for _ in range(world.settings.rounds)]
    size = max(NUMBERS // (len(starts) * len(steps)), 1)
    total = np.zeros((len(starts), len(steps)))
    for low in range(0, len(world.users), size):
        part = slice(low, low + size)
        block = _Block.of(world, starts, steps, part)
        total += sum((block.play(x[part], y[part]) for x, y in events), np.zeros_like(total))
    return np.asarray(total / len(world.users) / len(events))


class _Block:
    """The states of some users with every start and step size; the width is the first axis."""

    def __init__(self, world: OnlineWorld, phi: Floats, steps: Floats, part: slice) -> None:
        self.regulariser, self.radius = world.settings.regulariser, world.settings.radius
        self.users, self.best = world.users[part], world.best[part]
        self.phi, self.steps = phi, steps  # [D, U, S, G], [G]

    @classmethod
    def of(cls, world: OnlineWorld, starts: Floats, steps: Floats, part: slice) -> "_Block":
        own = starts[:, part].transpose(2, 1, 0)[..., None]  # [D, U, S, 1]
        return cls(world, np.repeat(own, len(steps), -1), steps, part)

    def play(self, x: Floats, y: Floats) -> Floats:
        """Summed excess loss [S, G] of one event of every user; then the states move."""
        score = _dot(self.phi, x)  # [U, S, G]
        away = np.exp(-score)  # a score is at most B_x times the radius
        square = _dot(self.phi, self.phi)
        clicked = expit((self.users * x).sum(1))  # [U]
        best = _loss((self.best * x).sum(1), clicked, (self.best**2).sum(1), self.regulariser)
        loss = (1 - clicked)[:, None, None] * score + np.log1p(away) + self.regulariser / 2 * square
        self._move((1 / (1 + away) - y[:, None, None]) * self.steps, x)
        return np.asarray((loss - best[:, None, None]).sum(0))

    def _move(self, by: NDArray[np.float64], x: Floats) -> None:
        self.phi *= 1 - self.regulariser * self.steps
        for place in range(len(self.phi)):
            self.phi[place] -= by * x[:, place, None, None]
        norm = np.sqrt(_dot(self.phi, self.phi))
        self.phi /= np.maximum(norm / self.radius, 1.0)


def _loss(score: Floats, clicked: Floats, square: Floats, regulariser: float) -> Floats:
    """The expected loss over the click, -clicked * score + log(1 + exp(score)) + (c / 2) |phi|^2."""
    return np.asarray(np.logaddexp(0.0, score) - clicked * score + regulariser / 2 * square)


def _dot(phi: Floats, other: Floats) -> Floats:
    """Inner products [U, S, G] of states with states [D, U, S, G] or with items [U, D]."""
    parts = other if other.ndim == 4 else other.T[:, :, None, None]
    total: Floats = phi[0] * parts[0]
    for one, two in zip(phi[1:], parts[1:], strict=True):
        total += one * two
    return total
