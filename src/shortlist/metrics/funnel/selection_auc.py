"""How well a score predicts which candidates a stage keeps, from sampled log rows.

Rows carry 1 / incl_prob as weight (Horvitz and Thompson). Positives and negatives of a stage lie in different sampling
strata, so the product of two weights is the exact weight of a pair.
"""

from dataclasses import dataclass

import numpy as np

from shortlist.errors import DataError
from shortlist.metrics.funnel.pair_counts import Bools, Floats, Ints, Placements, placements, sums


@dataclass(frozen=True)
class AucEstimate:
    """An AUC with two standard errors."""

    value: float
    sampling_error: float  # from drawing rows of this log: against the AUC of all its rows
    request_error: (
        float  # from the requests: against the AUC of the traffic; rows of a request are one cluster
    )


@dataclass(frozen=True)
class SelectionAuc:
    """AUC over all pairs, over pairs within requests (mean of requests), and that weighted by pairs."""

    auc: AucEstimate
    uauc: AucEstimate
    wuauc: AucEstimate
    requests: int  # with rows of both classes


@dataclass(frozen=True, eq=False)
class SelectionRows:
    """Logged inputs of one stage: positive where the stage kept the row."""

    positive: Bools  # [n]
    request: Ints  # [n], 0..R-1
    stratum: Ints  # [n]: S, the unit of sampling inside a request
    incl_prob: Floats  # [n]

    @property
    def weight(self) -> Floats:
        """1 / incl_prob [n]."""
        return 1 / self.incl_prob


def stage_inputs(reached: Ints, stage: int) -> tuple[Bools, Bools]:
    """Which rows are inputs of the stage (S >= stage - 1), and which of all rows it kept (S >= stage)."""
    return reached >= stage - 1, reached >= stage


def selection_rows(reached: Ints, stage: int, request: Ints, incl_prob: Floats) -> SelectionRows:
    """The rows of a log that were inputs of the stage, with requests numbered from 0."""
    inputs, kept = stage_inputs(reached, stage)
    if not (kept[inputs].any() and (inputs & ~kept).any()):
        raise DataError(
            f"stage {stage}: expected logged rows that it kept and that it dropped, got one kind only"
        )
    if not ((incl_prob > 0) & (incl_prob <= 1)).all():
        raise DataError(f"stage {stage}: expected incl_prob in (0, 1], got other values; rebuild the log")
    number = np.unique(request[inputs], return_inverse=True)[1]
    return SelectionRows(kept[inputs], number, reached[inputs], incl_prob[inputs].astype(np.float64))


def selection_auc(scores: Floats, rows: SelectionRows) -> SelectionAuc:
    """AUC, UAUC and WUAUC of scores [n] for the rows; the errors are first-order."""
    if np.isnan(scores).any():
        missing = int(np.isnan(scores).sum())
        raise DataError(
            f"selection AUC: expected a score of every row, got {missing} without; leave them out"
        )
    within = placements(scores, rows.positive, rows.weight, rows.request)
    whole = placements(scores, rows.positive, rows.weight, np.zeros(len(scores), np.int64))
    shares = within.pairs > 0
    equal, by_pairs = shares / max(shares.sum(), 1), within.pairs / max(within.pairs.sum(), 1e-300)
    return SelectionAuc(
        _pooled(whole, rows), _mean(within, rows, equal), _mean(within, rows, by_pairs), int(shares.sum())
    )


def influence(scores: Floats, rows: SelectionRows) -> Floats:
    """What every request adds to the pooled AUC, to first order [R]; their sum of squares is its variance."""
    whole = placements(scores, rows.positive, rows.weight, np.zeros(len(scores), np.int64))
    each = _row_weight(whole, rows) * (whole.share - _auc_of(whole, rows))
    return sums(rows.request, each)


def _pooled(whole: Placements, rows: SelectionRows) -> AucEstimate:
    value, weight = _auc_of(whole, rows), _row_weight(whole, rows)
    requests = sums(rows.request, weight * (whole.share - value))
    variance = _stratified(weight * whole.share, rows).sum()
    return AucEstimate(value, float(np.sqrt(variance)), _clustered(requests))


def _mean(within: Placements, rows: SelectionRows, of_request: Floats) -> AucEstimate:
    """A weighted mean of the AUCs of requests; `of_request` [R] sums to 1."""
    weight = _row_weight(within, rows)
    used = rows.positive & (of_request[rows.request] > 0)
    aucs = sums(rows.request[used], (weight * within.share)[used], len(of_request))
    variance = _stratified(np.where(of_request[rows.request] > 0, weight * within.share, 0.0), rows)
    value = float((of_request * aucs).sum())
    return AucEstimate(
        value,
        float(np.sqrt((np.square(of_request) * variance).sum())),
        _clustered((of_request * (aucs - value))[of_request > 0]),
    )


def _auc_of(whole: Placements, rows: SelectionRows) -> float:
    return float((_row_weight(whole, rows) * whole.share)[rows.positive].sum())


def _row_weight(counted: Placements, rows: SelectionRows) -> Floats:
    """The weight of a row as a share of its class in its group."""
    of_class = np.where(rows.positive, counted.positives[counted.group], counted.negatives[counted.group])
    return rows.weight / of_class


def _stratified(values: Floats, rows: SelectionRows) -> Floats:
    """Sampling variance of the sum of weighted `values` [n] of every request [R], strata drawn without replacement.

    A stratum of m rows adds m (1 - m / N) s^2 with the sample variance s^2 of its values. The weights of a stratum are
    equal, so values may carry them. A stratum with a single row takes the s^2 of all others, NaN where there is none.
    """
    width, requests = int(rows.stratum.max()) + 1, int(rows.request.max()) + 1
    at = rows.request * width + rows.stratum
    count = np.bincount(at, minlength=requests * width)
    per_row = 1 / np.maximum(count, 1)
    means = sums(at, values, len(count)) * per_row
    squares = sums(at, np.square(values - means[at]), len(count))
    freedom = len(at) - int((count > 0).sum())
    pooled = squares.sum() / freedom if freedom else float("nan")
    spread = np.where(count > 1, squares / np.maximum(count - 1, 1), pooled)
    missing = 1 - sums(at, rows.incl_prob, len(count)) * per_row
    added = np.where((missing > 0) & (count > 0), count * missing * spread, 0.0)
    return np.asarray(added.reshape(requests, width).sum(1), np.float64)


def _clustered(parts: Floats) -> float:
    """Standard error of a sum of independent parts with mean 0; NaN for a single one."""
    count = len(parts)
    return float(np.sqrt(count / (count - 1) * np.square(parts).sum())) if count > 1 else float("nan")
