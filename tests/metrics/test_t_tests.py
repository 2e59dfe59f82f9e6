"""Welch's test from printed summaries, paired t-tests, and Holm's correction over columns."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from shortlist.errors import DataError
from shortlist.metrics.t_tests import Summary, column_tests, paired_t, user_t_tests, welch


def test_welch_test_of_a_printed_table() -> None:
    """Spec test 34: (18.83, .58) against (17.76, .51), n = 5: p = .0150."""
    found = welch(Summary(18.83, 0.58, 5), Summary(17.76, 0.51, 5))
    assert found.p_value == pytest.approx(0.0150, abs=2e-4)
    assert found.low > 0


def test_tests_equal_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 2, 6).tolist(), rng.normal(0, 1, 6).tolist()
    unpaired, paired = stats.ttest_ind(a, b, equal_var=False), stats.ttest_rel(a, b)
    found = welch(Summary.of(a), Summary.of(b))
    assert found.p_value == pytest.approx(unpaired.pvalue)
    assert found.degrees == pytest.approx(unpaired.df)
    interval = unpaired.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert paired_t(a, b).p_value == pytest.approx(paired.pvalue)


def test_paired_test_is_stronger_where_worlds_differ() -> None:
    worlds = [10.0, 20.0, 30.0, 40.0, 50.0]
    better = [world + gain for world, gain in zip(worlds, (1.0, 1.2, 0.9, 1.1, 1.0), strict=True)]
    assert paired_t(better, worlds).p_value < 0.001
    assert welch(Summary.of(better), Summary.of(worlds)).p_value > 0.5


def test_columns_are_corrected_together() -> None:
    rng = np.random.default_rng(1)
    base = {name: rng.normal(0, 1, 5).tolist() for name in ("hr", "ndcg", "recall")}
    other = {name: [value + 3 for value in values] for name, values in base.items()}
    other["recall"] = rng.normal(0, 1, 5).tolist()
    found = column_tests(other, base)
    assert [one.column for one in found] == ["hr", "ndcg", "recall"]
    for one in found:
        assert one.welch_holm >= one.welch.p_value
        assert one.paired_holm >= one.paired.p_value
    smallest = min(found, key=lambda one: one.welch.p_value)
    assert smallest.welch_holm == pytest.approx(3 * smallest.welch.p_value)


def test_samples_without_variance() -> None:
    assert math.isnan(paired_t([1.0, 2.0], [1.0, 2.0]).p_value)
    assert welch(Summary(2.0, 0.0, 5), Summary(1.0, 0.0, 5)).p_value == 0


def test_too_few_or_unequal_repeats_are_refused() -> None:
    with pytest.raises(DataError, match="at least 2 repeats"):
        Summary.of([1.0])
    with pytest.raises(DataError, match="same repeats"):
        paired_t([1.0, 2.0], [1.0])


def test_t_tests_of_users_equal_those_of_scipy_and_leave_out_users_without_a_value() -> None:
    rng = np.random.default_rng(3)
    a = torch.from_numpy(rng.random(40))
    b = a - 0.02 + 0.05 * torch.from_numpy(rng.random(40))
    a[3], b[7] = torch.nan, torch.nan
    both = ~(a.isnan() | b.isnan()).numpy()
    found = user_t_tests([(a, b), (b, a)])
    one, two = a.numpy()[both], b.numpy()[both]
    assert found[0].paired.p_value == pytest.approx(stats.ttest_rel(one, two).pvalue)
    assert found[0].welch.p_value == pytest.approx(stats.ttest_ind(one, two, equal_var=False).pvalue)
    assert found[0].paired_holm == pytest.approx(min(1.0, 2 * found[0].paired.p_value))
    assert found[1].paired.difference == pytest.approx(-found[0].paired.difference)


def test_t_tests_of_one_user_or_equal_systems_have_no_p_value() -> None:
    values = torch.tensor([0.1, 0.4, 0.3])
    one, same = user_t_tests([(values[:1], values[:1]), (values, values)])
    assert math.isnan(one.paired.p_value)
    assert math.isnan(one.welch_holm)
    assert math.isnan(same.paired.p_value)
    assert same.welch.p_value == 1
