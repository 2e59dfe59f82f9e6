"""Weights, the guard, and the estimated probability of being retrieved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import ConfigError, DataError
from shortlist.train.rankers.training_data.weights import (
    Guard,
    effective_share,
    expected_share,
    retrieval_probability,
    weigh,
)


def test_flags_with_recall_one_fifth_have_weight_five() -> None:
    """W9 and I29: mean |1 - w| = 2 (1 - R)."""
    flags = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 0], bool)
    found = weigh(flags, 0.0)
    assert found.values.tolist() == [5, 5] + [0] * 8
    assert abs(1 - found.values).mean() == pytest.approx(1.6) == pytest.approx(2 * (1 - 0.2))


@given(st.integers(1, 400), st.integers(0, 2**31), st.floats(0, 1))
def test_effective_share_matches_the_formula(count: int, seed: int, blend: float) -> None:
    """I30, for flags; no weight is clipped where recall is high enough."""
    flags = np.random.default_rng(seed).random(count) < 0.4
    flags[0] = True
    if 1 / flags.mean() > 20:
        return
    assert weigh(flags, blend).effective_share == pytest.approx(expected_share(flags.mean(), blend))


def test_lambda_1_is_the_plain_mean_and_0_the_mean_of_the_retrieved() -> None:
    """I31."""
    rng = np.random.default_rng(0)
    losses, flags = rng.random(500), rng.random(500) < 0.3
    assert (weigh(flags, 1.0).values * losses).mean() == pytest.approx(losses.mean())
    assert (weigh(flags, 0.0).values * losses).mean() == pytest.approx(losses[flags].mean())


def test_large_weights_are_clipped_and_counted() -> None:
    flags = np.zeros(1000, bool)
    flags[:10] = True
    found = weigh(flags, 0.0)
    assert found.clipped_share == 0.01
    assert found.values.mean() == pytest.approx(1)
    mild = weigh(flags, 0.5, most=3.0)
    assert mild.values.max() / mild.values.min() == pytest.approx(6)


def test_no_retrieved_target_is_refused() -> None:
    with pytest.raises(DataError, match="none of 3 targets was retrieved"):
        weigh(np.zeros(3, bool), 0.0)
    with pytest.raises(DataError, match="none of 0"):
        weigh(np.zeros(0, bool), 1.0)
    assert weigh(np.zeros(3, bool), 1.0).values.tolist() == [1, 1, 1]
    with pytest.raises(ConfigError, match="between 0 and 1"):
        weigh(np.ones(3, bool), 1.5)


def test_zero_weights_have_no_effective_sample() -> None:
    assert effective_share(np.zeros(4)) == 0.0


def test_guard_is_ok_where_recall_is_high() -> None:
    flags = np.tile([True, False], 500)
    found = Guard().check(flags, np.repeat(np.arange(10), 100))
    assert (found.level, found.recall, found.retrieved, found.reasons) == ("ok", 0.5, 500, ())
    assert found.effective_share == pytest.approx(0.5)


def test_guard_warns_below_ten_percent_recall_with_numbers() -> None:
    flags = np.zeros(1000, bool)
    flags[:80] = True
    found = Guard().check(flags, np.arange(1000) % 4)
    assert found.level == "warn"
    assert "8.0%" in found.reasons[0]
    assert "10%" in found.reasons[0]


def test_guard_counts_target_items_that_are_never_retrieved() -> None:
    items = np.array([0, 0, 1, 1, 2, 2, 2, 2, 2, 2])
    found = Guard(per_item=0).check(np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 0], bool), items)
    assert (found.missing_items, found.missing_share) == (1, 0.6)


def test_guard_refuses_where_nothing_is_retrieved() -> None:
    assert Guard().check(np.zeros(5, bool), np.arange(5)).level == "refuse"
    assert Guard().check(np.zeros(0, bool), np.arange(0)).level == "refuse"


def test_logistic_regression_recovers_the_retrieval_probability() -> None:
    rng = np.random.default_rng(3)
    features = rng.normal(size=(40_000, 2))
    true = 1 / (1 + np.exp(-(0.5 + 1.5 * features[:, 0])))
    found = retrieval_probability(rng.random(len(features)) < true, features)
    assert abs(found - true).mean() < 0.02


@pytest.mark.parametrize("flag", [True, False])
def test_equal_flags_are_their_own_probability(flag: bool) -> None:
    assert retrieval_probability(np.full(4, flag), np.zeros((4, 1))).tolist() == [float(flag)] * 4


def test_constant_features_give_the_mean() -> None:
    hit = np.array([True, False, False, False])
    assert retrieval_probability(hit, np.ones((4, 2))) == pytest.approx([0.25] * 4, abs=1e-3)
