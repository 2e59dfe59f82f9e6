"""Offline descent: one stochastic gradient step per event from 0, with step size 1 / (c j) at step j."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from shortlist.errors import ConfigError
from shortlist.simulate.online.world import Floats, OnlineWorld, projected


@dataclass(frozen=True)
class Offline:
    """Vectors after T events, and their squared error from phi*."""

    errors: Floats  # [T + 1], the mean over users after 0 .. T events
    lengths: NDArray[np.int64]  # [L], where vectors are kept
    vectors: Floats  # [L, U, D]


def offline_descent(world: OnlineWorld, most: int, keep: Sequence[int], rng: np.random.Generator) -> Offline:
    """Projected descent over `most` events of every user; `keep` are the increasing numbers of events to keep."""
    lengths = np.asarray(keep, np.int64)
    if not len(lengths) or lengths[0] < 0 or lengths[-1] > most or (np.diff(lengths) <= 0).any():
        raise ConfigError(f"offline descent: expected increasing lengths from 0 to {most}, got {list(keep)}")
    settings, phi = world.settings, np.zeros_like(world.users)
    errors, kept = np.empty(most + 1), np.empty((len(lengths), *phi.shape))
    for step in range(most + 1):
        if step:
            phi = offline_step(phi, *draw_events(world, rng), step, settings.regulariser, settings.radius)
        errors[step] = ((phi - world.best) ** 2).sum(1).mean()
        kept[lengths == step] = phi
    return Offline(errors, lengths, kept)


def offline_step(phi: Floats, x: Floats, y: Floats, step: int, regulariser: float, radius: float) -> Floats:
    """Vectors [U, D] after event number `step` (from 1) with items x [U, D] and clicks y [U]."""
    residual = expit((phi * x).sum(1)) - y
    gradient = residual[:, None] * x + regulariser * phi
    return projected(phi - gradient / (regulariser * step), radius)


def draw_events(world: OnlineWorld, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """One event of every user: a uniform item [U, D], and whether it is clicked [U]."""
    x = world.items[rng.integers(len(world.items), size=len(world.users))]
    clicked = rng.random(len(x)) < expit((world.users * x).sum(1))
    return x, clicked.astype(np.float64)
