"""Calibration of scores to probabilities, fitted on validation requests of the ranker."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from shortlist.errors import ConfigError
from shortlist.metrics.logistic import logistic_regression
from shortlist.stages.calibrated import Calibrated, Calibration
from shortlist.train.context import RequestBatch

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Stage = TypeVar("Stage", bound=Calibrated)

MIN_SLOPE = 1e-3  # the curve must increase, even where scores carry no information


def calibrated(stage: Stage, method: str, batches: Sequence[RequestBatch], what: str) -> Stage:
    """The same stage with scores that are probabilities; `method` is "none", "platt" or "isotonic"."""
    if method == "none":
        return stage
    scores, targets = raw_scores(stage, batches)
    if not len(scores):
        raise ConfigError(
            f"{what}: calibrate = {method!r} needs validation requests with candidates, got {len(batches)} batches "
            "and no candidate; use more requests, or set calibrate = 'none'"
        )
    return stage.renewed(calibration={"platt": platt, "isotonic": isotonic}[method](scores, targets))


@torch.no_grad()
def raw_scores(stage: Calibrated, batches: Sequence[RequestBatch]) -> tuple[Floats, Flags]:
    """The finite uncalibrated scores of all candidates [n], and whether each is a target [n]."""
    scores, targets = [np.empty(0)], [np.empty(0, bool)]
    for one in batches:
        valid = one.found.valid
        scores.append(stage.raw(one.query, one.found)[valid].double().numpy())
        targets.append(one.is_target[valid].numpy())
    every, labels = np.concatenate(scores), np.concatenate(targets)
    finite = np.isfinite(every)
    return every[finite], labels[finite]


def platt(scores: Floats, targets: Flags) -> Calibration:
    """A logistic curve by maximum likelihood, with smoothed labels (Platt, 1999)."""
    mean, std = _scale(scores)
    z = (scores - mean) / std
    positives = int(targets.sum())
    labels = np.where(targets, (positives + 1) / (positives + 2), 1 / (len(targets) - positives + 2))
    slope, shift = logistic_regression(np.column_stack([z, np.ones_like(z)]), labels)
    if slope < MIN_SLOPE:
        ones = np.ones((len(z), 1))
        slope, shift = MIN_SLOPE, float(logistic_regression(ones, labels, MIN_SLOPE * z)[0])
    return _calibration(mean, std, slope, shift)


def isotonic(scores: Floats, targets: Flags) -> Calibration:
    """Pool adjacent violators, piecewise linear between the centres of the pools.

    Lines instead of steps keep the order of all scores (centred isotonic regression; Oron and Flournoy, 2017).
    """
    mean, std = _scale(scores)
    z, place, count = np.unique((scores - mean) / std, return_inverse=True, return_counts=True)
    share = np.bincount(place, weights=targets, minlength=len(z)) / count
    margin = 1 / (len(scores) + 2)
    fitted = np.clip(isotonic_regression(share, weights=count).x, margin, 1 - margin)
    heights, pool = np.unique(fitted, return_inverse=True)
    knots = np.bincount(pool, weights=z * count) / np.bincount(pool, weights=count)
    return _calibration(mean, std, 1.0, 0.0, knots, heights)


def _scale(scores: Floats) -> tuple[float, float]:
    std = float(scores.std())
    return float(scores.mean()), std if std > 0 else 1.0


def _calibration(mean: float, std: float, slope: float, shift: float, *curve: Floats) -> Calibration:
    knots, heights = curve or (np.empty(0), np.empty(0))
    line = torch.tensor([mean, std, slope, shift], dtype=torch.float64)
    return Calibration(line, _tensor(knots), _tensor(heights))


def _tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float64))
