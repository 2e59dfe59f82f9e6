"""AUC of stage selection from sampled logs: unbiased, with standard errors that cover."""

import numpy as np
import pytest

from shortlist.errors import DataError
from shortlist.metrics.funnel.selection_auc import SelectionRows, influence, selection_auc, selection_rows
from shortlist.metrics.two_samples import auc

SIZES = {0: 300, 1: 120, 2: 30}  # candidates of every request by S
REQUESTS = 25


def full_log(seed: int = 0, requests: int = REQUESTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S, request and a score that predicts S, of a log with every candidate."""
    rng = np.random.default_rng(seed)
    reached = np.tile(np.repeat([*SIZES], [*SIZES.values()]), requests)
    request = np.repeat(np.arange(requests), sum(SIZES.values()))
    scores = rng.normal(size=len(reached)) + 0.8 * reached + rng.normal(size=requests)[request]
    return reached, request, scores


def sampled(reached: np.ndarray, request: np.ndarray, seed: int, per_stratum: int = 40) -> tuple:
    """The rows that a log with 40 per stratum holds, and their inclusion probabilities."""
    order = np.random.default_rng(seed).random(len(reached))
    key = request * 10 + reached
    by = np.lexsort((order, key))
    first = np.searchsorted(key[by], key[by])
    keep = by[np.arange(len(by)) - first < per_stratum]
    size = np.array([*SIZES.values()])[reached[keep]]
    return keep, np.minimum(1, per_stratum / size)


def test_weighted_auc_of_sampled_logs_covers_that_of_the_full_log() -> None:
    """Spec test 24: 200 repetitions of 40 per stratum; the mean is unbiased and 90 to 97 % of 95 % intervals cover."""
    reached, request, scores = full_log()
    names = ("auc", "uauc", "wuauc")
    full = selection_auc(scores, selection_rows(reached, 1, request, np.ones(len(reached))))
    whole = np.array([getattr(full, name).value for name in names])
    found = []
    for seed in range(200):
        keep, probability = sampled(reached, request, seed)
        one = selection_auc(scores[keep], selection_rows(reached[keep], 1, request[keep], probability))
        found.append([(getattr(one, name).value, getattr(one, name).sampling_error) for name in names])
    values, errors = np.moveaxis(np.array(found), 2, 0)  # [200, 3] each
    assert (abs(values.mean(0) - whole) < 3 * values.std(0) / 200**0.5).all()
    coverage = (abs(values - whole) < 1.96 * errors).mean(0)
    assert ((coverage >= 0.90) & (coverage <= 0.97)).all(), coverage
    assert (abs(values - whole) < 3 * errors).mean() > 0.985
    assert [getattr(full, name).sampling_error for name in names] == [0, 0, 0]


def test_unweighted_auc_of_a_sampled_log_is_biased() -> None:
    """Why weights are needed: the stratum of hard positives is as large as that of easy ones in the sample."""
    reached, request, scores = full_log()
    keep, probability = sampled(reached, request, 0)
    weighted = selection_auc(scores[keep], selection_rows(reached[keep], 1, request[keep], probability))
    plain = auc(scores[keep], reached[keep] >= 1)
    assert abs(plain - auc(scores, reached >= 1)) > 3 * weighted.auc.sampling_error


def test_metrics_of_a_full_log_equal_the_obvious_versions() -> None:
    reached, request, scores = full_log(requests=6)
    rows = selection_rows(reached, 2, request, np.ones(len(reached)))
    inputs = reached >= 1
    found = selection_auc(scores[inputs], rows)
    aucs = [
        auc(scores[inputs & (request == one)], reached[inputs & (request == one)] >= 2) for one in range(6)
    ]
    assert found.auc.value == pytest.approx(auc(scores[inputs], reached[inputs] >= 2))
    assert found.uauc.value == pytest.approx(np.mean(aucs))
    assert found.uauc.request_error == pytest.approx(np.std(aucs, ddof=1) / 6**0.5)
    assert found.wuauc.value == pytest.approx(np.mean(aucs))
    assert found.requests == 6


def test_requests_with_one_class_count_in_no_mean_over_requests() -> None:
    reached = np.array([0, 0, 1, 0, 0, 1, 1, 1])
    request = np.array([7, 7, 7, 9, 9, 11, 11, 11])
    scores = np.array([0.1, 0.5, 0.3, 0.9, 0.8, 0.2, 0.1, 0.4])
    found = selection_auc(scores, selection_rows(reached, 1, request, np.ones(8)))
    assert found.requests == 1
    assert found.uauc.value == found.wuauc.value == 0.5


def test_pairs_weigh_requests_in_wuauc() -> None:
    reached, request = np.array([0, 1, 0, 0, 0, 1]), np.array([0, 0, 1, 1, 1, 1])
    scores = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    found = selection_auc(scores, selection_rows(reached, 1, request, np.ones(6)))
    assert found.uauc.value == 0.5
    assert found.wuauc.value == 0.75


def test_request_error_covers_the_auc_of_the_traffic() -> None:
    """Requests differ by an offset of the score, so rows of a request are not independent."""
    values, errors = [], []
    for seed in range(100):
        reached, request, scores = full_log(seed, requests=30)
        found = selection_auc(scores, selection_rows(reached, 1, request, np.ones(len(reached)))).auc
        values.append(found.value)
        errors.append(found.request_error)
    assert np.mean(errors) == pytest.approx(np.std(values, ddof=1), rel=0.25)


def test_influences_of_requests_add_up_to_nothing() -> None:
    reached, request, scores = full_log(requests=8)
    rows = selection_rows(reached, 1, request, np.ones(len(reached)))
    assert influence(scores, rows).sum() == pytest.approx(0, abs=1e-12)


def test_sampling_error_of_strata_with_a_single_row() -> None:
    """Without any other stratum it is unknown; with others their pooled variance stands in."""
    scores = np.random.default_rng(0).normal(size=60)
    positive, request = np.tile([True, False, False], 20), np.repeat(np.arange(20), 3)
    single = SelectionRows(positive, request, np.tile([2, 0, 1], 20), np.full(60, 0.5))
    double = SelectionRows(positive, request, np.tile([2, 0, 0], 20), np.full(60, 0.5))
    assert np.isnan(selection_auc(scores, single).auc.sampling_error)
    assert selection_auc(scores, double).auc.sampling_error > 0


def test_rows_that_cannot_be_used_are_refused() -> None:
    reached, request, scores = full_log(requests=2)
    with pytest.raises(DataError, match="one kind only"):
        selection_rows(reached, 4, request, np.ones(len(reached)))
    with pytest.raises(DataError, match=r"incl_prob in \(0, 1\]"):
        selection_rows(reached, 1, request, np.zeros(len(reached)))
    scores[3] = np.nan
    with pytest.raises(DataError, match="1 without"):
        selection_auc(scores, selection_rows(reached, 1, request, np.ones(len(reached))))
