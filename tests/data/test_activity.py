import numpy as np
import pytest

from shortlist.data.activity import is_active
from shortlist.errors import ConfigError


def test_a_user_at_the_threshold_is_inactive_for_models_and_active_in_the_theory():
    """Test 24 of the specification of two time scales."""
    assert is_active([0, 49, 50, 51], 50).tolist() == [False, False, False, True]
    assert is_active([0, 49, 50, 51], 50, rule="ge").tolist() == [False, False, True, True]


def test_thresholds_without_active_or_inactive_users():
    counts = np.arange(5)
    assert not is_active(counts, np.inf).any()
    assert is_active(counts, 0, rule="ge").all()
    assert is_active(7, 3)


def test_an_unknown_rule_is_refused():
    with pytest.raises(ConfigError, match=r"expected a rule of gt, ge, got '>'"):
        is_active([1], 1, rule=">")
