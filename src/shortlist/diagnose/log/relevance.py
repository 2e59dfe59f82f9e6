"""Utility that stages lose, by a model of positive feedback: labels exist for shown items only.

The model is a logistic regression on what is known of every candidate: scores of the first stages, nominators, and the
rate of positive feedback of the item in earlier requests. It is fitted to shown items, weighted by the inverse of their
propensity where slates are sampled, so for others it extrapolates.
"""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.diagnose.log.stage_rows import dense
from shortlist.diagnose.log.totals import weights
from shortlist.feedback.record import Array, LoggedRequests
from shortlist.metrics.funnel.calibration import Calibration, calibration
from shortlist.metrics.funnel.pair_counts import Floats, sums
from shortlist.metrics.funnel.stage_metrics import utility_lost
from shortlist.metrics.logistic import logistic_regression
from shortlist.metrics.significance import Interval, bootstraps
from shortlist.metrics.two_samples import auc

RATES, FIT = (
    0.5,
    0.7,
)  # shares of the requests, earliest first: item rates, the regression, and the rest is measured
PRIOR = 10.0  # shown items with the mean rate that are added to the rate of an item
RIDGE = 1e-4
CLIP = 100.0  # largest weight of a shown candidate
LEAST = 20  # shown candidates of each kind that the fit and the measurement need


@dataclass(frozen=True)
class StageUtilityLost:
    """Expected positives that the slots could have with the candidates after a stage, and what it lost, per request."""

    name: str
    best_utility: float
    lost: Interval


@dataclass(frozen=True)
class ModelledUtility:
    """Utility lost per stage by the model, measured on the last requests beside the model's calibration there."""

    requests: int
    slots: int
    input_utility: float  # the best `slots` of all nominated candidates
    stages: tuple[StageUtilityLost, ...]
    auc: float  # of the model on shown items of these requests
    calibration: Calibration


def modelled_utility(
    record: LoggedRequests, stages: tuple[str, ...], seed: int = 0
) -> ModelledUtility | None:
    """Utility lost per stage; None where too few labels are there to fit and measure the model."""
    record = record.only(np.flatnonzero(~record.filtered))
    part = _parts(record)[record.request]
    features = _features(record, part == 0)
    shown = record.y >= 0
    if not all(_enough(record.y[shown & (part == one)]) for one in (1, 2)):
        return None
    probability = _predicted(features, record, shown & (part == 1))
    held = np.flatnonzero(_parts(record) == 2)
    test = shown & (part == 2)
    return _measured(
        record.take(held),
        probability[part == 2],
        stages,
        float(auc(probability[test], record.y[test] == 1)),
        calibration(probability[test], record.y[test] == 1, np.ones(int(test.sum()))),
        seed,
    )


def _parts(record: LoggedRequests) -> Array:
    """0 for the earliest requests, 1 for the next, 2 for the last [R]; requests of one time stay together."""
    times = np.sort(record.ts_ms)
    starts = [times[min(int(share * len(times)), len(times) - 1)] for share in (RATES, FIT)]
    parts: Array = (record.ts_ms >= starts[0]).astype(np.int64) + (record.ts_ms >= starts[1])
    return parts


def _features(record: LoggedRequests, earlier: Array) -> Floats:
    """Scores that every candidate has, nominators, logit of the item's rate and log of its shown count [C, F]."""
    scores = record.scores[:, np.isfinite(record.scores).all(0)].astype(np.float64)
    width = max(int(record.channel_mask.max(initial=0)).bit_length(), 1)
    channels = (record.channel_mask[:, None] >> np.arange(width)) & 1
    counted = earlier & (record.y >= 0)
    overall = float((record.y[counted] == 1).mean()) if counted.any() else 0.5
    items = record.item_id.astype(str) if record.item_id.dtype == object else record.item_id
    at = np.unique(items, return_inverse=True)[1]
    shown, liked = (sums(at, one.astype(np.float64)) for one in (counted, counted & (record.y == 1)))
    rate = np.clip((liked + PRIOR * overall) / (shown + PRIOR), 1e-3, 1 - 1e-3)
    known = np.stack([np.log(rate / (1 - rate)), np.log1p(shown)], axis=1)[at]
    return np.concatenate([scores, channels, known], axis=1)


def _enough(y: Array) -> bool:
    return bool((y == 1).sum() >= LEAST and (y == 0).sum() >= LEAST)


def label_weights(record: LoggedRequests) -> Floats:
    """1 / probability of the draw into the slate, at most 100, where the slate was sampled; else 1 [C].

    The weighted shown items stand for the candidates that the last stage drew from.
    """
    drawn = record.slate_propensity.astype(np.float64)
    known = np.isfinite(drawn) & (drawn > 0)
    return np.where(known, 1 / np.maximum(np.where(known, drawn, 1.0), 1 / CLIP), 1.0)


def _predicted(features: Floats, record: LoggedRequests, fitted: Array) -> Floats:
    """Probability of positive feedback of every candidate [C]."""
    mean, spread = features[fitted].mean(0), features[fitted].std(0)
    columns = (features - mean) / np.where(spread > 0, spread, 1.0)
    columns = np.concatenate([columns, np.ones((len(columns), 1))], axis=1)
    own = label_weights(record)[fitted]
    found = logistic_regression(
        columns[fitted], (record.y[fitted] == 1) * 1.0, weights=own / own.sum(), ridge=RIDGE, max_step=10.0
    )
    return np.asarray(0.5 * (1 + np.tanh(columns @ found / 2)), np.float64)


def _measured(
    record: LoggedRequests,
    probability: Floats,
    stages: tuple[str, ...],
    area: float,
    line: Calibration,
    seed: int,
) -> ModelledUtility:
    slots = max(int(np.median(np.bincount(record.request, record.position > 0, len(record)))), 1)
    reached, weight = dense(record.stage, record, -1).long(), dense(weights(record), record, 0)
    found = utility_lost(dense(probability, record, 0), reached, len(stages), slots, weight)
    lost = bootstraps([*found.lost.T], seed)
    best = torch.nanmean(found.best, dim=0).tolist()
    rows = tuple(map(StageUtilityLost, stages, best[1:], lost))
    return ModelledUtility(len(record), slots, best[0], rows, area, line)
