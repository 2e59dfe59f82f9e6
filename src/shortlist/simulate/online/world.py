"""A world of logistic users: their clicks on items of unit norm, and the vector that minimises their expected loss."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from shortlist.errors import ConfigError

Floats = NDArray[np.float64]

B_X = 1.0  # norm of every item
NEWTON_STEPS = 100
SMALL_GRADIENT = 1e-10
LEAST_REGULARISER = 2e-3  # the exponential of a score, which is at most 1 / regulariser, stays finite
KEPT = 150  # vectors of a user in memory
NUMBERS = 1 << 28  # of events and vectors in memory
MOST = {"users": 1_000_000, "items": 100_000, "width": 100, "most": 100_000, "rounds": 100_000}


@dataclass(frozen=True)
class OnlineSettings:
    """Users theta ~ N((mean, 0, ..), spread^2 I) who click item x with probability sigmoid(theta . x).

    The loss of phi is the logistic one plus (regulariser / 2) |phi|^2, on the ball of radius B_x / regulariser, which
    contains the minimiser of every user.
    """

    regulariser: float = 0.1
    spread: float = 1.0
    alpha: float = 1.5  # of the number of offline events, P(T) proportional to (T + 1)^-alpha for T <= most
    users: int = 4000
    items: int = 200
    width: int = 5
    mean: float = 3.0
    most: int = 400
    rounds: int = 50  # online

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value, least = getattr(self, name), 2 if name == "users" else 1
            if not least <= value <= most:
                raise ConfigError(f"online world: expected {name} from {least} to {most}, got {value}")
        for name in ("regulariser", "spread", "alpha"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(f"online world: expected a finite {name} > 0, got {value}")
        if self.regulariser < LEAST_REGULARISER:
            raise ConfigError(
                f"online world: expected a regulariser of {LEAST_REGULARISER} or more, got {self.regulariser}"
            )
        if not math.isfinite(self.mean):
            raise ConfigError(f"online world: expected a finite mean, got {self.mean}")
        if self.users * self.width * (self.rounds + KEPT) > NUMBERS:
            raise ConfigError(
                f"online world: {self.users} users of width {self.width} with {self.rounds} rounds need more than "
                f"{NUMBERS >> 17} MiB; expected fewer users or rounds"
            )

    @property
    def radius(self) -> float:
        """B_phi, the largest norm of a vector."""
        return B_X / self.regulariser

    @property
    def gradient_bound(self) -> float:
        """B = B_x + c B_phi, the largest norm of a gradient."""
        return B_X + self.regulariser * self.radius

    @cached_property
    def law(self) -> Floats:
        """P(T) of T = 0 .. most."""
        weights = np.arange(1, self.most + 2, dtype=np.float64) ** -self.alpha
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class OnlineWorld:
    """Items, users, and the vector phi* of each user that minimises their expected loss over all items."""

    settings: OnlineSettings
    items: Floats  # [I, D]
    users: Floats  # [U, D]
    best: Floats  # [U, D]

    @property
    def common(self) -> Floats:
        """The mean m of phi* [D]: the best common start."""
        return np.asarray(self.best.mean(0))

    @property
    def variance(self) -> float:
        """Var_m, the mean of |phi* - m|^2."""
        return float(((self.best - self.common) ** 2).sum(1).mean())


def make_online_world(settings: OnlineSettings, seed: int) -> OnlineWorld:
    """A world drawn from a seed."""
    rng = np.random.default_rng([seed, 0])
    items = rng.normal(size=(settings.items, settings.width))
    items /= np.linalg.norm(items, axis=1, keepdims=True)
    users = settings.spread * rng.normal(size=(settings.users, settings.width))
    users[:, 0] += settings.mean
    return OnlineWorld(settings, items, users, best_vectors(items, users, settings.regulariser))


def best_vectors(items: Floats, users: Floats, regulariser: float) -> Floats:
    """phi* of each user [U, D], exact up to a gradient of 1e-10, by Newton steps projected on the ball."""
    size = max(1 << 22, len(items)) // len(items)  # users of a block, to bound memory
    return np.concatenate(
        [_newton(items, users[low : low + size], regulariser) for low in range(0, len(users), size)]
    )


def projected(vectors: Floats, radius: float) -> Floats:
    """The nearest vectors [..., D] in the ball."""
    norm = np.sqrt((vectors**2).sum(-1, keepdims=True))
    return np.asarray(vectors / np.maximum(norm / radius, 1.0))


def _newton(items: Floats, users: Floats, regulariser: float) -> Floats:
    clicks = expit(users @ items.T)  # [U, I]
    width = items.shape[1]
    outer = (items[:, :, None] * items[:, None, :]).reshape(len(items), -1)  # [I, D * D]
    best = np.zeros_like(users)
    for _ in range(NEWTON_STEPS):
        found = expit(best @ items.T)
        gradient = (found - clicks) @ items / len(items) + regulariser * best  # [U, D]
        if np.abs(gradient).max() < SMALL_GRADIENT:
            return best
        hessian = (found * (1 - found) @ outer / len(items)).reshape(-1, width, width)
        hessian = hessian + regulariser * np.eye(width)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        best = projected(best - step, B_X / regulariser)
    raise ConfigError(
        f"online world: Newton's method did not reach a gradient of {SMALL_GRADIENT} in {NEWTON_STEPS} steps with "
        f"regulariser {regulariser}; expected a larger one"
    )
