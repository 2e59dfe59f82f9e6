"""From scores to probabilities: a curve fitted on rehearsed requests that the scorer did not learn from."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from shortlist.errors import ConfigError
from shortlist.stages.calibrated import Calibrated, Calibration
from shortlist.train.context import RequestBatch

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Stage = TypeVar("Stage", bound=Calibrated)

LEAST = 1e-3  # a curve must rise, even where the scores say nothing
TURNS = 50  # of Newton's method


def calibrated(stage: Stage, how: str, rounds: Sequence[RequestBatch], what: str) -> Stage:
    """The same stage with scores that are probabilities; `how` is "none", "platt" or "isotonic"."""
    if how == "none":
        return stage
    scores, wanted = judged(stage, rounds)
    if not len(scores):
        raise ConfigError(
            f"{what}: calibrate = {how!r} needs rehearsed requests with candidates beside those it learns from, "
            f"got {len(rounds)} rounds and no candidate; rehearse more requests, or set calibrate = 'none'"
        )
    return stage.renewed(calibration={"platt": platt, "isotonic": isotonic}[how](scores, wanted))


@torch.no_grad()
def judged(stage: Calibrated, rounds: Sequence[RequestBatch]) -> tuple[Floats, Flags]:
    """The bare scores of all candidates of some rounds [n], and whether each is wanted [n]."""
    scores, wanted = [np.empty(0)], [np.empty(0, bool)]
    for one in rounds:
        there = one.found.valid
        scores.append(stage.raw(one.query, one.found)[there].double().numpy())
        wanted.append(one.wanted[there].numpy())
    told, labels = np.concatenate(scores), np.concatenate(wanted)
    finite = np.isfinite(told)
    return told[finite], labels[finite]


def platt(scores: Floats, wanted: Flags) -> Calibration:
    """A logistic curve by maximum likelihood, with targets that are not quite 0 and 1 (Platt, 1999)."""
    mean, spread = _scale(scores)
    z = (scores - mean) / spread
    yes = int(wanted.sum())
    target = np.where(wanted, (yes + 1) / (yes + 2), 1 / (len(wanted) - yes + 2))
    slope, shift = _logistic(np.column_stack([z, np.ones_like(z)]), target)
    if slope < LEAST:
        slope, shift = LEAST, float(_logistic(np.ones((len(z), 1)), target, LEAST * z)[0])
    return _made(mean, spread, slope, shift)


def isotonic(scores: Floats, wanted: Flags) -> Calibration:
    """Pooled adjacent violators, with straight lines between the middles of the pools.

    Lines instead of steps keep the order of all scores (centred isotonic regression; Oron and Flournoy, 2017).
    """
    mean, spread = _scale(scores)
    z, place, count = np.unique((scores - mean) / spread, return_inverse=True, return_counts=True)
    share = np.bincount(place, weights=wanted, minlength=len(z)) / count
    rim = 1 / (len(scores) + 2)
    raised = np.clip(isotonic_regression(share, weights=count).x, rim, 1 - rim)
    heights, pool = np.unique(raised, return_inverse=True)
    knots = np.bincount(pool, weights=z * count) / np.bincount(pool, weights=count)
    return _made(mean, spread, 1.0, 0.0, knots, heights)


def _scale(scores: Floats) -> tuple[float, float]:
    spread = float(scores.std())
    return float(scores.mean()), spread if spread > 0 else 1.0


def _logistic(given: Floats, target: Floats, beside: Floats | float = 0.0) -> Floats:
    """The weights of a logistic regression of targets [n] on what is given [n, F]; `beside` is added to its logits."""
    at = np.zeros(given.shape[1])
    for _ in range(TURNS):
        chance = 1 / (1 + np.exp(-np.clip(given @ at + beside, -500, 500)))
        slope = given.T @ (target - chance)
        curve = (given * (chance * (1 - chance))[:, None]).T @ given + 1e-9 * np.eye(len(at))
        move = np.clip(np.linalg.solve(curve, slope), -2, 2)
        at = at + move
        if np.abs(move).max() < 1e-12:
            break
    return np.asarray(at, np.float64)


def _made(mean: float, spread: float, slope: float, shift: float, *curve: Floats) -> Calibration:
    knots, heights = curve or (np.empty(0), np.empty(0))
    line = torch.tensor([mean, spread, slope, shift], dtype=torch.float64)
    return Calibration(line, _tensor(knots), _tensor(heights))


def _tensor(values: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, np.float64))
