"""Does a stage choose items independently of the candidate set? A pointwise selection model against a set-aware one.

A high AUC of the pointwise model shows that the stage can be predicted, not that it is independent of the set. The gap
is the AUC that statistics of the candidate set add; about 0 where the choice is independent of the set.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shortlist.errors import DataError
from shortlist.metrics.funnel.calibration import Calibration, calibration
from shortlist.metrics.funnel.pair_counts import Bools, Floats, Ints, sums
from shortlist.metrics.funnel.selection_auc import (
    SelectionAuc,
    SelectionRows,
    influence,
    selection_auc,
    selection_rows,
    stage_inputs,
)
from shortlist.metrics.logistic import logistic_regression

RIDGE = 1e-4  # keeps the coefficients finite where a stage is separable
TEST_SHARE = 0.3


@dataclass(frozen=True)
class ModelReport:
    """A selection model on the later requests of a log."""

    auc: SelectionAuc
    calibration: Calibration


@dataclass(frozen=True)
class SetDependence:
    """The pointwise model, the one with candidate-set statistics, and the gap between their pooled AUCs."""

    pointwise: ModelReport
    set_aware: ModelReport
    gap: float
    error: float  # of the gap, with requests as clusters
    train_requests: int
    test_requests: int


def set_statistics(score: Floats, request: Ints, weight: Floats) -> Floats:
    """Mean and maximum of the stage score in the request's candidate set, and the row's z-score [n, 3].

    Mean and deviation are weighted; the maximum is that of the logged rows.
    """
    total = sums(request, weight)
    mean = (sums(request, weight * score) / total)[request]
    spread = np.sqrt(sums(request, weight * np.square(score - mean)) / total)[request]
    highest = np.full(len(total), -np.inf)
    np.maximum.at(highest, request, score)
    own = np.divide(score - mean, spread, out=np.zeros(len(score)), where=spread > 0)
    return np.stack([mean, highest[request], own], axis=1)


def set_dependence(
    features: Floats, score: Floats, rows: SelectionRows, time: Ints, test_share: float = TEST_SHARE
) -> SetDependence:
    """Fit both models on the earlier requests and compare them on the later ones.

    `features` [n, F] describe user and item only, `score` [n] is the score of the stage, `time` [n] is the time of the
    row's request.
    """
    test = later_requests(rows.request, time, test_share)
    held = _subset(rows, test)
    both = np.concatenate([features, set_statistics(score, rows.request, rows.weight)], axis=1)
    predicted = [_predict(columns, rows, test) for columns in (features, both)]
    pointwise, aware = (_report(one, held) for one in predicted)
    differences = influence(predicted[1], held) - influence(predicted[0], held)
    return SetDependence(
        pointwise,
        aware,
        aware.auc.auc.value - pointwise.auc.auc.value,
        float(np.sqrt(np.square(differences).sum())),
        len(np.unique(rows.request[~test])),
        len(differences),
    )


def assumption1_report(
    features: Floats,
    scores: Floats,
    reached: Ints,
    request: Ints,
    time: Ints,
    incl_prob: Floats,
    stages: Sequence[int],
) -> dict[int, SetDependence]:
    """The report of every stage number in `stages` from all rows of a log: scores [n, T], S [n].

    The first stage has no report where the log holds no rows with S = 0.
    """
    found = {}
    for stage in stages:
        rows, inputs = selection_rows(reached, stage, request, incl_prob), stage_inputs(reached, stage)[0]
        found[stage] = set_dependence(features[inputs], scores[inputs, stage - 1], rows, time[inputs])
    return found


def later_requests(request: Ints, time: Ints, share: float) -> Bools:
    """The rows of the last `share` of requests by time; requests of one time stay together [n]."""
    times = np.zeros(int(request.max()) + 1, np.int64)
    times[request] = time
    start = np.sort(times)[min(int(np.ceil(len(times) * (1 - share))), len(times) - 1)]
    test = time >= start
    if test.all():
        raise DataError(
            "set dependence: expected earlier and later requests, got one time for most of them; log more requests"
        )
    return np.asarray(test, np.bool_)


def _subset(rows: SelectionRows, keep: Bools) -> SelectionRows:
    number = np.unique(rows.request[keep], return_inverse=True)[1]
    kept = SelectionRows(rows.positive[keep], number, rows.stratum[keep], rows.incl_prob[keep])
    if kept.positive.all() or not kept.positive.any():
        raise DataError("set dependence: expected kept and dropped rows in later requests, got one kind only")
    return kept


def _predict(features: Floats, rows: SelectionRows, test: Bools) -> Floats:
    """Logits of the test rows from a logistic regression on the other rows."""
    mean, spread = features[~test].mean(0), features[~test].std(0)
    columns = (features - mean) / np.where(spread > 0, spread, 1.0)
    columns = np.concatenate([columns, np.ones((len(columns), 1))], axis=1)
    weight = rows.weight[~test]
    fitted = logistic_regression(
        columns[~test],
        rows.positive[~test].astype(np.float64),
        weights=weight / weight.sum(),
        ridge=RIDGE,
        max_step=10.0,
        tolerance=1e-8,
    )
    return np.asarray(columns[test] @ fitted, np.float64)


def _report(logits: Floats, rows: SelectionRows) -> ModelReport:
    probability = 0.5 * (1 + np.tanh(logits / 2))
    return ModelReport(selection_auc(logits, rows), calibration(probability, rows.positive, rows.weight))
