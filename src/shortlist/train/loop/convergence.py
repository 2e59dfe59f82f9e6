"""Whether early stopping found a maximum before the epochs ran out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shortlist.pipeline.about import TrainingHistory

LATE = 0.1  # a best epoch this share of all epochs before the end counts as converged
TIME_LIMIT = "stopped by the time limit"


@dataclass(frozen=True)
class FitSummary:
    """What a training says of itself besides the validation metric."""

    epochs: int  # that were run
    out_of_time: bool = False  # the time limit stopped it
    ahead: int | None = None  # label horizon that was used


def history_of(
    validation: Sequence[float], max_epochs: int, patience: int, summary: FitSummary | None = None
) -> TrainingHistory:
    """The training history from the early-stopping metric after every epoch; without validation it is empty."""
    out_of_time = summary is not None and summary.out_of_time
    return TrainingHistory(
        epochs=len(validation) or (summary.epochs if summary else max_epochs),
        max_epochs=max_epochs,
        best_epoch=best_of(validation) + 1 if validation else None,
        validation=tuple(value if math.isfinite(value) else None for value in validation),
        converged=converged(validation, max_epochs, patience, out_of_time),
        ahead=summary.ahead if summary else None,
        stopped=TIME_LIMIT if out_of_time else "",
    )


def converged(
    validation: Sequence[float], max_epochs: int, patience: int, out_of_time: bool = False
) -> bool | None:
    """False if the metric still improved when the epochs or the time ran out, None without validation.

    True: training stopped before `max_epochs`, or the best epoch is at least `patience` epochs, or a tenth of all,
    before the end.
    """
    if not validation:
        return None
    enough = math.ceil(LATE * max_epochs)
    waited = len(validation) - 1 - best_of(validation)
    early = len(validation) < max_epochs and not out_of_time
    return early or waited >= (min(patience, enough) if patience else enough)


def best_of(validation: Sequence[float]) -> int:
    """The position of the largest value, the first of equals; NaN is never the best."""
    return max(range(len(validation)), key=lambda at: (_comparable(validation[at]), -at))


def _comparable(value: float) -> float:
    return value if not math.isnan(value) else -math.inf
