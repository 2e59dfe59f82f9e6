"""Split-half moments of a logistic world."""

import numpy as np

from shortlist.errors import ConfigError
from shortlist.metrics.moments import Moments, split_half_moments
from shortlist.simulate.online.offline import offline_descent
from shortlist.simulate.online.world import OnlineWorld


def split_half(world: OnlineWorld, t: int, seed: int) -> Moments:
    """Q, V and their threshold from 2t events per user: offline descent on each of two disjoint halves.

    Events are independent, so the first and the second half are random halves.
    """
    if t < 1:
        raise ConfigError(f"split halves: expected at least 1 event in a half, got t = {t}")
    rng = np.random.default_rng([seed, 3, t])
    a, b = (offline_descent(world, t, [t], rng).vectors[0] for _ in range(2))
    return split_half_moments(a, b, t)
