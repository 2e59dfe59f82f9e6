"""Weights, the guard, and the estimate of what is retrieved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import ConfigError, DataError
from shortlist.train.rankers.weights import Guard, effective_share, expected_share, likely_retrieved, weigh


def test_flags_of_a_fifth_weigh_five_and_shift_by_twice_what_is_missed() -> None:
    """W9 and I29: mean |1 - w| = 2 (1 - R)."""
    flags = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 0], bool)
    found = weigh(flags, 0.0)
    assert found.values.tolist() == [5, 5] + [0] * 8
    assert abs(1 - found.values).mean() == pytest.approx(1.6) == pytest.approx(2 * (1 - 0.2))


@given(st.integers(1, 400), st.integers(0, 2**31), st.floats(0, 1))
def test_what_is_left_of_the_instances_is_as_the_formula_says(count: int, seed: int, blend: float) -> None:
    """I30, for flags; nothing is clipped where enough is retrieved."""
    flags = np.random.default_rng(seed).random(count) < 0.4
    flags[0] = True
    if 1 / flags.mean() > 20:
        return
    assert weigh(flags, blend).effective == pytest.approx(expected_share(flags.mean(), blend))


def test_all_weight_spread_evenly_is_the_plain_mean_and_none_is_the_mean_of_the_retrieved() -> None:
    """I31."""
    rng = np.random.default_rng(0)
    losses, flags = rng.random(500), rng.random(500) < 0.3
    assert (weigh(flags, 1.0).values * losses).mean() == pytest.approx(losses.mean())
    assert (weigh(flags, 0.0).values * losses).mean() == pytest.approx(losses[flags].mean())


def test_weights_are_cut_and_say_so() -> None:
    flags = np.zeros(1000, bool)
    flags[:10] = True
    found = weigh(flags, 0.0)
    assert found.clipped == 0.01
    assert found.values.mean() == pytest.approx(1)
    mild = weigh(flags, 0.5, most=3.0)
    assert mild.values.max() / mild.values.min() == pytest.approx(6)


def test_nothing_retrieved_is_refused_in_words() -> None:
    with pytest.raises(DataError, match="none of 3 wanted items was retrieved"):
        weigh(np.zeros(3, bool), 0.0)
    with pytest.raises(DataError, match="none of 0"):
        weigh(np.zeros(0, bool), 1.0)
    assert weigh(np.zeros(3, bool), 1.0).values.tolist() == [1, 1, 1]
    with pytest.raises(ConfigError, match="between 0 and 1"):
        weigh(np.ones(3, bool), 1.5)


def test_the_worth_of_no_weights_is_nothing() -> None:
    assert effective_share(np.zeros(4)) == 0.0


def test_the_guard_is_content_where_enough_is_retrieved() -> None:
    flags = np.tile([True, False], 500)
    found = Guard().check(flags, np.repeat(np.arange(10), 100))
    assert (found.level, found.recall, found.kept, found.reasons) == ("ok", 0.5, 500, ())
    assert found.effective == pytest.approx(0.5)


def test_the_guard_warns_below_a_tenth_with_numbers() -> None:
    flags = np.zeros(1000, bool)
    flags[:80] = True
    found = Guard().check(flags, np.arange(1000) % 4)
    assert found.level == "warn"
    assert "8.0%" in found.reasons[0]
    assert "10%" in found.reasons[0]


def test_the_guard_tells_of_items_that_vanish() -> None:
    items = np.array([0, 0, 1, 1, 2, 2, 2, 2, 2, 2])
    found = Guard(per_item=0).check(np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 0], bool), items)
    assert (found.dropped_items, found.dropped_share) == (1, 0.6)
    assert found.as_dict()["dropped_items"] == 1


def test_the_guard_refuses_where_nothing_is_retrieved() -> None:
    assert Guard().check(np.zeros(5, bool), np.arange(5)).level == "refuse"
    assert Guard().check(np.zeros(0, bool), np.arange(0)).level == "refuse"


def test_the_chance_of_being_retrieved_is_found_again() -> None:
    rng = np.random.default_rng(3)
    told = rng.normal(size=(40_000, 2))
    true = 1 / (1 + np.exp(-(0.5 + 1.5 * told[:, 0])))
    found = likely_retrieved(rng.random(len(told)) < true, told)
    assert abs(found - true).mean() < 0.02


@pytest.mark.parametrize("flag", [True, False])
def test_where_all_are_alike_there_is_nothing_to_estimate(flag: bool) -> None:
    assert likely_retrieved(np.full(4, flag), np.zeros((4, 1))).tolist() == [float(flag)] * 4


def test_facts_that_are_the_same_for_all_tell_the_mean() -> None:
    hit = np.array([True, False, False, False])
    assert likely_retrieved(hit, np.ones((4, 2))) == pytest.approx([0.25] * 4, abs=1e-3)
