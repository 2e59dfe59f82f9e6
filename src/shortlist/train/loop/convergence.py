"""Whether a training was done when it ended, told from what its judge said."""

import math
from collections.abc import Sequence

from shortlist.pipeline.about import TrainingHistory

LATE = 0.1  # a best look this share of all looks before the end is no accident


def course(values: Sequence[float], max_epochs: int, patience: int) -> TrainingHistory:
    """The history of a training from the validation values that `Loop.run` returned, empty without validation."""
    return TrainingHistory(
        epochs=len(values) or max_epochs,
        max_epochs=max_epochs,
        best_epoch=best_of(values) + 1 if values else None,
        validation=tuple(one if math.isfinite(one) else None for one in values),
        converged=converged(values, max_epochs, patience),
    )


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
