"""Whether a training was done when it ended, told from what its judge said."""

import math
from collections.abc import Sequence
from typing import Any

LATE = 0.1  # a best look this share of all looks before the end is no accident


def course(judged: Sequence[float], most: int, patience: int) -> dict[str, Any]:
    """How a training went, in plain values for `Material.note`: what `Loop.run` returned, its `epochs` and `patience`.

    `best` counts epochs from 1. Without a judge all epochs were run, and nobody knows how well.
    """
    return {
        "epochs": len(judged) or most,
        "most": most,
        "best": best_of(judged) + 1 if judged else None,
        "judged": [one if math.isfinite(one) else None for one in judged],
        "converged": converged(judged, most, patience),
    }


def converged(judged: Sequence[float], most: int, patience: int) -> bool | None:
    """True when the judge was no longer pleased, False when it still was as the epochs ran out, None without a judge.

    No longer pleased: training stopped before `most` epochs, or the best one lies at least `patience` epochs, or a
    tenth of all, before the end.
    """
    if not judged:
        return None
    enough = math.ceil(LATE * most)
    waited = len(judged) - 1 - best_of(judged)
    return len(judged) < most or waited >= (min(patience, enough) if patience else enough)


def best_of(judged: Sequence[float]) -> int:
    """Where the best of them stands, the first of equals; what is no number is never the best."""
    return max(range(len(judged)), key=lambda at: (_known(judged[at]), -at))


def _known(value: float) -> float:
    return value if not math.isnan(value) else -math.inf
