import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from shortlist.train.two_time_scale.threshold import Choice, ascending, candidates, choose_threshold


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(0.5, 9)), min_size=1, max_size=12))
def test_ascending_values_are_those_of_an_isotonic_regression(pairs):
    values, weights = map(np.array, zip(*pairs, strict=True))
    np.testing.assert_allclose(
        ascending(values, weights), isotonic_regression(values, weights=weights).x, atol=1e-9
    )


BINS = (5, 10, 20, 50)


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((-1, -1, 1, 1), 20),
        ((1, 1, 1, 1), 5),
        ((-1, -1, -1, -1), None),
        ((-1, 2, -1, 1), 10),  # the two in the middle are smoothed to 0.5
        ((-1, -1, -1, 0), 50),  # no worse is enough
    ],
)
def test_threshold_is_the_first_bin_from_which_own_vectors_are_no_worse(gains, expected):
    counts = np.repeat([6, 15, 30, 80], 10)
    active = np.repeat(np.array(gains, float), 10)
    choice = choose_threshold(active, np.zeros(40), counts, BINS)
    assert choice.threshold == expected
    assert choice.gains == tuple(map(float, gains))
    assert choice.events == (10, 10, 10, 10)


def test_total_is_the_gain_of_all_events_above_the_threshold():
    assert Choice(BINS, (-1, 2, 0.5, 0), (1, 2, 3, 4), 10).total == 5.5
    assert Choice(BINS, (-1, -1, -1, -1), (1, 2, 3, 4), None).total == 0


def test_users_below_all_candidates_do_not_count():
    choice = choose_threshold(np.array([-9.0, 1.0]), np.zeros(2), np.array([5, 6]), BINS)
    assert choice.events == (1, 0, 0, 0)
    assert choice.threshold == 5


def test_candidates_have_enough_users_above_them():
    lengths = np.concatenate([np.full(100, 3), np.full(40, 15), np.full(10, 300)])
    assert candidates(lengths) == (5, 10)


def test_choice_says_the_gain_of_every_bin():
    choice = choose_threshold(np.array([0.5, 0.25]), np.zeros(2), np.array([6, 60]), BINS)
    assert str(choice) == ">5: +0.5000 of 1, >10: +0.0000 of 0, >20: +0.0000 of 0, >50: +0.2500 of 1"
