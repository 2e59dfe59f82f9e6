"""Log loss and calibration from weighted rows."""

import numpy as np
import pytest

from shortlist.errors import DataError
from shortlist.metrics.funnel.calibration import calibration, log_loss


def rows(n: int = 20_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    probability = 1 / (1 + np.exp(-rng.normal(-1, 1, n)))
    return probability, rng.random(n) < probability


def test_true_probabilities_are_calibrated() -> None:
    found = calibration(*rows(), np.ones(20_000))
    assert abs(found.bias) < 0.01
    assert found.expected_error < 0.015
    assert [found.intercept, found.slope] == pytest.approx([0, 1], abs=0.06)
    assert len(found.bins) == 10
    assert sum(one.weight for one in found.bins) == pytest.approx(20_000)


def test_overconfident_probabilities_have_a_slope_below_one() -> None:
    probability, positive = rows()
    logits = 2 * np.log(probability / (1 - probability))
    found = calibration(1 / (1 + np.exp(-logits)), positive, np.ones(20_000))
    assert found.slope == pytest.approx(0.5, abs=0.05)
    assert found.expected_error > 0.05


def test_weights_restore_rows_that_were_not_logged() -> None:
    """A tenth of the negatives is logged with weight 10."""
    probability, positive = rows()
    keep = positive | (np.arange(20_000) % 10 == 0)
    weight = np.where(positive, 1.0, 10.0)[keep]
    found = calibration(probability[keep], positive[keep], weight)
    assert abs(found.bias) < 0.015
    assert found.slope == pytest.approx(1, abs=0.12)
    assert calibration(probability[keep], positive[keep], np.ones(keep.sum())).bias < -0.3


def test_weight_is_a_number_of_equal_rows() -> None:
    probability, positive = np.array([0.2, 0.7, 0.9]), np.array([False, True, False])
    repeated = calibration(probability[[0, 1, 1, 2]], positive[[0, 1, 1, 2]], np.ones(4), bins=3)
    weighted = calibration(probability, positive, np.array([1.0, 2, 1]), bins=3)
    assert weighted.log_loss == pytest.approx(repeated.log_loss)
    assert weighted.expected_error == pytest.approx(repeated.expected_error)
    assert weighted.slope == pytest.approx(repeated.slope)


def test_log_loss_of_a_sure_and_wrong_prediction_is_finite() -> None:
    assert log_loss(np.array([0.0]), np.array([True]), np.ones(1)) == pytest.approx(-np.log(1e-7))
    assert log_loss(np.array([0.5, 0.5]), np.array([True, False]), np.ones(2)) == pytest.approx(np.log(2))


def test_one_class_has_no_slope() -> None:
    found = calibration(np.array([0.2, 0.4]), np.array([False, False]), np.ones(2))
    assert np.isnan(found.slope)


def test_numbers_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(DataError, match="sigmoid"):
        calibration(np.array([1.2]), np.array([True]), np.ones(1))
