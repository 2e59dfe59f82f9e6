import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.metrics.holm import holm


def test_a_case_worked_out_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_one_comparison_needs_no_correction_and_none_gives_none():
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_what_was_no_comparison_does_not_count():
    first, nothing = holm([0.02, float("nan")])
    assert first == 0.02
    assert math.isnan(nothing)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_order_is_kept_and_nothing_gets_smaller_or_above_one(p_values):
    adjusted = holm(p_values)
    assert all(p <= after <= 1 for p, after in zip(p_values, adjusted, strict=True))
    by_p = sorted(range(len(p_values)), key=lambda at: p_values[at])
    assert [adjusted[at] for at in by_p] == sorted(adjusted)
