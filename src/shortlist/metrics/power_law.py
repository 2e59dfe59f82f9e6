"""Exponent of a power law of event counts, by maximum likelihood."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from shortlist.errors import ConfigError, DataError

SMALLEST, LARGEST = 1.0 + 1e-6, 100.0  # exponents that are tried


@dataclass(frozen=True)
class PowerLaw:
    """P(T) proportional to T^-alpha for T >= least."""

    alpha: float
    least: int
    users: int  # with at least that many events


def fit_power_law(lengths: NDArray[Any], least: int) -> PowerLaw:
    """The exponent that maximises -alpha sum(log T) - n log zeta(alpha, least) over users with T >= least events.

    One exponent for several `least` means a power law; a rising one means that the tail is lighter.
    """
    if least < 1:
        raise ConfigError(f"power law: expected a smallest count of 1 or more, got {least}")
    counts = np.asarray(lengths)
    tail = counts[counts >= least].astype(np.float64)
    if not len(tail) or not np.isfinite(tail).all() or tail.max() == least:
        raise DataError(
            f"power law: expected finite counts, some of them above {least}, got {len(tail)} counts of at least "
            f"{least}; choose a smaller one"
        )
    mean_log = float(np.log(tail).mean())

    def loss(alpha: float) -> float:
        return alpha * mean_log + math.log(float(zeta(alpha, least)))

    # The loss is convex: a log-partition function plus a linear one.
    found = minimize_scalar(loss, bounds=(SMALLEST, LARGEST), method="bounded", options={"xatol": 1e-8})
    return PowerLaw(float(found.x), least, len(tail))
