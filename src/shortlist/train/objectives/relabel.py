"""Full-stage labels: what the last stage that an item reached, and its feedback, say about its value (FS-LTR, eq. 9).

S is the last stage that an item passed, 0 .. T; T = shown to the user. y is 1, 0 or -1 = not known.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shortlist.errors import ConfigError

Ladder = tuple[float, ...]
"""Labels z_0 .. z_{T+1}: of S = 0 .. T - 1, of shown items without and with positive feedback."""


def consecutive(n_stages: int) -> Ladder:
    """0, 1, .., T + 1."""
    return tuple(float(value) for value in range(n_stages + 2))


def high_positive(n_stages: int) -> Ladder:
    """0, 1, .., T, T + 2: the alternative of the paper, 0 1 2 3 4 6 for four stages."""
    return (*consecutive(n_stages)[:-1], float(n_stages + 2))


def low_exposed_negative(n_stages: int) -> Ladder:
    """Consecutive, but an item that was shown without positive feedback is below one that the last stage dropped."""
    values = list(consecutive(n_stages))
    values[n_stages - 1], values[n_stages] = values[n_stages], values[n_stages - 1]
    return tuple(values)


def binary(n_stages: int) -> Ladder:
    """1 for positive feedback, 0 for all others."""
    return (*(0.0,) * (n_stages + 1), 1.0)


LADDERS: Mapping[str, Callable[[int], Ladder]] = {
    "consecutive": consecutive,
    "high-positive": high_positive,
    "low-exposed-negative": low_exposed_negative,
    "binary": binary,
}
"""Ladders by name, for any number of stages."""


def relabel(stage: ArrayLike, y: ArrayLike, ladder: Sequence[float], n_stages: int) -> NDArray[Any]:
    """The labels of items that reached `stage` and have feedback y; NaN where an item must not be used.

    NaN: shown items without known feedback, and strata that `reindex` dropped.
    """
    check_ladder(ladder, n_stages)
    reached, feedback = np.asarray(stage, np.int64), np.asarray(y, np.int64)
    if reached.size and not (reached.min() >= 0 and reached.max() <= n_stages):
        raise ConfigError(
            f"S must lie in 0..{n_stages}, got {reached.min()}..{reached.max()}; is the number of stages right?"
        )
    shown = reached == n_stages
    labels = np.asarray(ladder, np.float64)[reached + (shown & (feedback == 1))]
    return np.where(shown & (feedback != 0) & (feedback != 1), np.nan, labels)


def reindex(ladder: Sequence[float], dropped: Collection[int]) -> Ladder:
    """The ladder without the entries `dropped`, which become NaN; what remains is 0, 1, .. in the same order.

    Equal labels stay equal. Without any dropped entry the ladder stays as it is.
    """
    unknown = sorted(set(dropped) - set(range(len(ladder))))
    if unknown:
        raise ConfigError(
            f"a ladder of {len(ladder)} labels has no entry {unknown[0]}; expected 0..{len(ladder) - 1}"
        )
    if not dropped:
        return tuple(ladder)
    remaining = sorted({value for place, value in enumerate(ladder) if place not in dropped})
    return tuple(
        math.nan if place in dropped else float(remaining.index(value)) for place, value in enumerate(ladder)
    )


def check_ladder(ladder: Sequence[float], n_stages: int) -> None:
    """Refuse ladders of another length, negative labels and falling labels; z_T alone may be lower than z_{T-1}."""
    if n_stages < 1 or len(ladder) != n_stages + 2:
        raise ConfigError(f"{n_stages} stages need {n_stages + 2} labels z_0 .. z_T+1, got {len(ladder)}")
    values = [value for place, value in enumerate(ladder) if place != n_stages and not math.isnan(value)]
    exposed = [value for value in ladder[n_stages:] if not math.isnan(value)]
    if not all(0 <= value < math.inf for value in (*values, *exposed)):
        raise ConfigError(f"labels must be finite and not negative, got {tuple(ladder)}")
    if values != sorted(values) or exposed != sorted(exposed):
        raise ConfigError(
            f"labels may not fall from z_0 to z_T+1, except from z_T-1 to z_T, got {tuple(ladder)}"
        )


def lowest_stage(stage: int, n_stages: int, j: int | None = None) -> int:
    """j: stage i is trained on items with S >= j. By default i - 1, which is all that the stage can get in serving."""
    if not 1 <= stage <= n_stages:
        raise ConfigError(f"stage must lie in 1..{n_stages}, got {stage}")
    if j is not None and not 0 <= j <= n_stages:
        raise ConfigError(f"j must lie in 0..{n_stages}, got {j}: items with S >= j are trained on")
    return stage - 1 if j is None else j


def printed_choices(stage: int, n_stages: int) -> range:
    """The values of j in Algorithm 1 of the paper, 0 .. i + 1, clamped to the last stage."""
    return range(min(lowest_stage(stage, n_stages) + 2, n_stages) + 1)


def dropped_below(j: int) -> frozenset[int]:
    """The entries of a ladder that items with S >= j never get."""
    return frozenset(range(j))
