from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.metrics.sampled import expected_sampled_metrics


def by_hand(rank, n_items, n_neg, k):
    """The sum over the number of higher negatives, with whole numbers."""
    drawn, total = min(n_neg, n_items - 1), 0
    reciprocal = recall = Fraction(0)
    for higher in range(min(drawn, rank - 1) + 1):
        ways = comb(rank - 1, higher) * comb(n_items - rank, drawn - higher)
        total += ways
        reciprocal += Fraction(ways, higher + 1)
        recall += ways * (higher < k)
    return float(reciprocal / total), float(recall / total)


@given(st.integers(1, 60), st.integers(1, 70), st.integers(1, 12), st.data())
def test_closed_form_is_the_sum_over_the_hypergeometric_distribution(n_items, n_neg, k, data):
    rank = data.draw(st.integers(1, n_items))
    expected = by_hand(rank, n_items, n_neg, k)
    assert expected_sampled_metrics(rank, n_items, n_neg, k) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("n_items", "rank", "reciprocal", "recall"),
    [
        (59_048, 1_000, 0.118074, 0.661376),
        (4_111_798, 10_000, 0.578983, 0.9999994),
        (3_706, 75, 0.098825, 0.452128),
        (3_706, 100, 0.074120, 0.123378),
        (500, 3, 1 / 3, 1.0),
        (500, 500, 0.002, 0.0),
    ],
)
def test_values_of_the_specification(n_items, rank, reciprocal, recall):
    """Tests 26 and 30b of the specification of two time scales."""
    found = expected_sampled_metrics(rank, n_items)
    assert found == pytest.approx((reciprocal, recall), abs=1e-6)


def test_30b_closed_form_equals_the_sum_at_full_size():
    """Test 30b of the specification of two time scales."""
    assert expected_sampled_metrics(75, 3706)[0] == pytest.approx(0.0988250, abs=5e-8)
    for rank in (
        1,
        2,
        75,
        500,
        3206,
        3207,
        3208,
        3706,
    ):  # 3207: the last rank with a chance of no higher negative
        assert expected_sampled_metrics(rank, 3706) == pytest.approx(by_hand(rank, 3706, 499, 10), rel=1e-9)


def test_a_half_rank_has_the_mean_of_its_neighbours_and_shapes_are_kept():
    ranks = np.array([[1.0, 1.5], [2.0, 30.0]])
    reciprocal, recall = expected_sampled_metrics(ranks, 30, n_neg=9, k=2)
    assert reciprocal.shape == recall.shape == (2, 2)
    assert reciprocal[0, 1] == pytest.approx((reciprocal[0, 0] + reciprocal[1, 0]) / 2)
    assert recall[0, 1] == pytest.approx((recall[0, 0] + recall[1, 0]) / 2)
    assert expected_sampled_metrics(np.empty(0), 30)[0].shape == (0,)


def test_a_better_rank_never_has_a_lower_value():
    reciprocal, recall = expected_sampled_metrics(np.arange(2, 2001) / 2, 1000, n_neg=99)
    assert (np.diff(reciprocal) < 0).all()
    assert (np.diff(recall) <= 1e-12).all()


def test_one_item_is_always_first():
    assert expected_sampled_metrics(1, 1) == (1.0, 1.0)


@pytest.mark.parametrize("rank", [0.5, 11, np.nan, np.inf, 2.25])
def test_ranks_that_cannot_be_are_refused(rank):
    with pytest.raises(ConfigError, match="expected whole or half ranks from 1 to 10, got"):
        expected_sampled_metrics([1.0, rank], 10)


@pytest.mark.parametrize("sizes", [(0, 1, 1), (5, 0, 1), (5, 1, 0)])
def test_sizes_below_one_are_refused(sizes):
    n_items, n_neg, k = sizes
    with pytest.raises(ConfigError, match="expected n_items, n_neg and k from 1"):
        expected_sampled_metrics([], n_items, n_neg, k)
