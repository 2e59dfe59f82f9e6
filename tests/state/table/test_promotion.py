"""When users change their group: a tenth above the threshold, and a tenth below it."""

import pytest
import torch

from shortlist.models.state_model import Promotion
from shortlist.state.table.promotion import base_size, promotion_count, stays_active, takes_own


def rule(threshold):
    return Promotion(threshold, 2, 1.0, torch.zeros(2))


@pytest.mark.parametrize(
    ("threshold", "first"), [(0, 1), (1, 2), (5, 6), (9, 10), (10, 11), (20, 22), (100, 110), (50, 55)]
)
def test_user_becomes_active_a_tenth_above_the_threshold(threshold, first):
    """Spec 2.3: at count >= 1.1 t*, and never at t* itself."""
    assert next(count for count in range(1000) if takes_own(rule(threshold), count)) == first
    assert promotion_count(rule(threshold)) == first


def test_vector_is_of_the_same_events_whenever_the_user_is_promoted():
    assert [base_size(rule(20), count) for count in (0, 1, 10, 21, 22, 23, 500)] == [0, 0, 8, 19, 20, 20, 20]


def test_user_stays_active_down_to_a_tenth_below_the_threshold():
    assert next(count for count in range(200) if stays_active(rule(100), count)) == 90
    between = [
        count for count in range(200) if stays_active(rule(100), count) and not takes_own(rule(100), count)
    ]
    assert between == list(range(90, 110))
