"""Who is an active user: one rule for the product and one for the theory."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shortlist.errors import ConfigError

RULES = ("gt", "ge")


def is_active(events: ArrayLike, threshold: float, rule: str = "gt") -> NDArray[np.bool_]:
    """Whether users with so many training events are active.

    "gt" is the rule of models: more events than the threshold. "ge" is that of the theory: as many or more.
    """
    counts: NDArray[Any] = np.asarray(events)
    if rule not in RULES:
        raise ConfigError(f"is_active: expected a rule of {', '.join(RULES)}, got {rule!r}")
    return np.asarray(counts > threshold if rule == "gt" else counts >= threshold)
