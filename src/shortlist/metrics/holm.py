"""Many comparisons at once: p-values that stay honest."""

import math
from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the same order (Holm, 1979): the chance of any false alarm among all stays below them.

    The i-th smallest of m is multiplied by m - i + 1, and none may lie below one that was smaller. What is no number
    was no comparison: it stays as it is and does not count.
    """
    order = sorted((at for at, p in enumerate(p_values) if not math.isnan(p)), key=lambda at: p_values[at])
    adjusted, least = list(p_values), 0.0
    for place, at in enumerate(order):
        least = max(least, min(1.0, p_values[at] * (len(order) - place)))
        adjusted[at] = least
    return adjusted
