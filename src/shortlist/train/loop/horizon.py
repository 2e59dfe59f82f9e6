"""Label horizons: those that are tried where none is given, and the one that a fitted stage was trained with."""

import numpy as np
from torch import nn

from shortlist.data import HeldOut
from shortlist.grammar import Stage
from shortlist.pipeline.about import TrainingHistory
from shortlist.train.loop.convergence import FitSummary

TRIAL_EPOCHS = 4  # of every label horizon
BETTER = (
    1.03  # how many times as good a longer horizon must be: after a few epochs small differences are noise
)
TRIAL_TIME = 0.5  # share of a time limit that all of them may take


def horizons(valid: HeldOut | None) -> tuple[int, ...]:
    """1, half and all of the median number of relevant items of a validation request; only 1 without such requests."""
    if valid is None or not len(valid):
        return (1,)
    median = int(np.median(valid.stops - valid.cuts))
    return tuple(sorted({1, max(median // 2, 1), max(median, 1)}))


def horizon_of(stage: Stage | None) -> int | None:
    """The label horizon a stage was trained with, so that a training that continues it uses the same."""
    summary = getattr(_module(stage), "summary", None)
    return None if summary is None else summary.ahead


def with_horizon(stage: Stage, history: TrainingHistory | None) -> Stage:
    """A stage that was read from a file, with the label horizon of its training history."""
    if history is not None:
        remember(_module(stage), FitSummary(history.epochs, ahead=history.ahead))
    return stage


def remember(module: nn.Module | None, summary: FitSummary) -> None:
    """Keep the summary of a training beside the weights; it is not one of them."""
    if module is not None:
        object.__setattr__(module, "summary", summary)


def _module(stage: Stage | None) -> nn.Module | None:
    """The model of a stage, or the scorer of its tree."""
    model = getattr(stage, "model", None)
    module = model if isinstance(model, nn.Module) else getattr(getattr(stage, "index", None), "scorer", None)
    return module if isinstance(module, nn.Module) else None
