"""The set-dependence gap: near 0 for a stage with a threshold, large for a stage that keeps the best of the set."""

import numpy as np
import pytest

from shortlist.errors import DataError
from shortlist.metrics.funnel.selection_auc import SelectionRows
from shortlist.metrics.funnel.set_dependence import (
    SetDependence,
    assumption1_report,
    later_requests,
    set_dependence,
    set_statistics,
)

REQUESTS, SIZE = 120, 40


def report(relative: bool) -> SetDependence:
    """A stage that keeps scores above 0, or scores above the mean of the request; request means differ by 1.5."""
    rng = np.random.default_rng(1)
    request = np.repeat(np.arange(REQUESTS), SIZE)
    score = rng.normal(size=len(request)) + 1.5 * rng.normal(size=REQUESTS)[request]
    mean = np.bincount(request, score)[request] / SIZE
    kept = score - mean * relative + 0.5 * rng.logistic(size=len(request)) > 0
    rows = SelectionRows(kept, request, kept.astype(np.int64), np.ones(len(request)))
    features = np.stack([score, rng.normal(size=len(request))], axis=1)
    return set_dependence(features, score, rows, request)


def test_gap_is_about_zero_where_the_choice_ignores_the_set() -> None:
    found = report(relative=False)
    assert abs(found.gap) < 0.01
    assert found.pointwise.auc.auc.value > 0.9
    assert abs(found.pointwise.calibration.slope - 1) < 0.2


def test_gap_is_large_where_candidates_compete() -> None:
    found = report(relative=True)
    assert found.gap > 0.1
    assert found.gap > 5 * found.error > 0
    assert (found.train_requests, found.test_requests) == (84, 36)


def test_high_pointwise_auc_does_not_show_independence() -> None:
    found = report(relative=True)
    assert found.pointwise.auc.uauc.value > 0.8


def test_statistics_of_candidate_sets() -> None:
    score, request = np.array([1.0, 3.0, 5.0, 5.0]), np.array([0, 0, 1, 1])
    found = set_statistics(score, request, np.array([3.0, 1.0, 1.0, 1.0]))
    assert found[:2, 0].tolist() == [1.5, 1.5]
    assert found[:, 1].tolist() == [3, 3, 5, 5]
    assert found[:, 2].tolist() == pytest.approx([-0.5 / 0.75**0.5, 1.5 / 0.75**0.5, 0, 0])


def test_split_is_by_time_of_request() -> None:
    request, time = np.array([0, 0, 1, 2, 2]), np.array([50, 50, 10, 30, 30])
    assert later_requests(request, time, 0.3).tolist() == [True, True, False, False, False]
    with pytest.raises(DataError, match="earlier and later"):
        later_requests(request, np.full(5, 7), 0.3)


def test_report_covers_the_stages_of_a_sampled_log() -> None:
    """Three stages of 60 / 30 / 12 / 4; 20 of the dropped items of the first two are logged."""
    rng = np.random.default_rng(2)
    reached = np.tile(np.repeat([0, 1, 2, 3], [30, 18, 8, 4]), 60)
    request = np.repeat(np.arange(60), 60) + 10**12
    scores = rng.normal(size=(3600, 3)) + reached[:, None]
    keep = np.arange(3600) % 60 >= 10
    probability = np.where(reached == 0, 20 / 30, 1.0)
    columns = scores[:, 2:], scores, reached, request, request, probability
    found = assumption1_report(*(column[keep] for column in columns), stages=(1, 2, 3))
    assert [*found] == [1, 2, 3]
    assert all(0.6 < one.pointwise.auc.auc.value < 1 for one in found.values())
    assert [one.test_requests for one in found.values()] == [18, 18, 18]
