"""Settings of a world of drifting tastes, and its usual sizes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shortlist.errors import ConfigError

MOST = {"users": 10_000_000, "items": 1_000_000, "width": 1024, "most": 1_000_000}


@dataclass(frozen=True)
class DriftSettings:
    """Event k of a user is an item drawn from softmax(x (phi + w_k) + bias) over the items x.

    x ~ N(0, item_norm^2 I / width); bias = -popularity log(rank); phi ~ N(m, spread^2 I) with m ~ N(0, centre^2 I);
    w_k = rho w_{k-1} + noise, with standard deviation `drift` at every event. The number of events of a user is
    `least` to `most` with P(T) proportional to T^-alpha.
    """

    users: int = 2500
    items: int = 500
    width: int = 8
    item_norm: float = 1.5
    popularity: float = 0.7
    centre: float = 0.5
    spread: float = 1.2
    rho: float = 0.9
    drift: float = 0.8
    least: int = 8
    most: int = 700
    alpha: float = 1.6
    newcomers: float = 0.1  # share of users whose events begin at a random time in the second half of the log

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(f"drift world: expected {name} from 1 to {most}, got {getattr(self, name)}")
        if not 1 <= self.least <= self.most:
            raise ConfigError(f"drift world: expected 1 <= least <= most, got {self.least} and {self.most}")
        for name in ("item_norm", "popularity", "centre", "spread", "drift", "alpha"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ConfigError(f"drift world: expected a finite {name} from 0, got {value}")
        for name in ("rho", "newcomers"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"drift world: expected {name} from 0 to 1, got {getattr(self, name)}")

    @property
    def law(self) -> NDArray[np.float64]:
        """P(T) of T = least .. most."""
        weights = np.arange(self.least, self.most + 1, dtype=np.float64) ** -self.alpha
        return np.asarray(weights / weights.sum())

    @property
    def mean_events(self) -> float:
        """The expected number of events of a user."""
        return float(self.law @ np.arange(self.least, self.most + 1))


SIZES: Mapping[str, DriftSettings] = {
    "tiny": DriftSettings(users=150, items=60, width=4, least=5, most=80),
    "unit": DriftSettings(),  # about 1.6e5 events
    "tenth": DriftSettings(users=10_000, items=10_000, most=2130),  # about 1e6 events
    "full": DriftSettings(users=100_000, items=10_000, most=2130),  # about 1e7 events: 100 per user
}
