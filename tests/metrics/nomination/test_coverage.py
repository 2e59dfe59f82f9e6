"""Coverage of positives by the limits of nominators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.coverage import (
    ABSENT,
    checked_ranks,
    coverage,
    coverage_by_segment,
    coverage_curves,
    marginal_gain,
)

RANK = np.array([[0, 5], [3, ABSENT], [ABSENT, 0], [ABSENT, ABSENT]])


def test_positive_counts_once_however_many_nominators_find_it() -> None:
    assert coverage(RANK, [1, 6]) == 2 / 4
    assert coverage(RANK, [4, 1]) == 3 / 4
    assert coverage(RANK, [0, 0]) == 0


def test_segments_have_limits_of_their_own() -> None:
    limits = [[4, 0], [0, 1], [9, 9]]
    assert coverage(RANK, limits, [0, 0, 1, 1]) == 3 / 4
    found = coverage_by_segment(RANK, limits, [0, 0, 1, 1], 3)
    assert found[:2].tolist() == [1, 0.5]
    assert np.isnan(found[2])


@given(
    st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=30),
    st.tuples(*[st.integers(0, 5)] * 3),
)
def test_marginal_gain_is_the_coverage_of_one_more_slot(
    rows: list[tuple[int, ...]], limits: tuple[int, ...]
) -> None:
    rank, gains = np.array(rows), marginal_gain(np.array(rows), limits)
    for nominator in range(3):
        more = np.array(limits) + np.eye(3, dtype=int)[nominator]
        assert gains[nominator] == pytest.approx(coverage(rank, more) - coverage(rank, limits))


def test_curve_is_the_coverage_of_a_nominator_alone() -> None:
    curves = coverage_curves(RANK, 6)
    assert curves.shape == (2, 7)
    for slots in range(7):
        assert curves[:, slots].tolist() == [coverage(RANK, [slots, 0]), coverage(RANK, [0, slots])]


def test_no_positives_give_no_coverage() -> None:
    empty = np.zeros((0, 2), np.int64)
    assert np.isnan(coverage(empty, [1, 1]))
    assert np.isnan(marginal_gain(empty, [1, 1])).all()
    assert np.isnan(coverage_curves(empty, 3)).all()


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        ([[0.0, float("nan")]], "NaN or fractions; write ABSENT"),
        ([[0.5, 1.0]], "NaN or fractions"),
        ([[-1, 0]], "expected ranks from 0, got -1"),
        ([0, 1], r"expected positives by nominators \[P, N\]"),
        ([["a"]], "expected whole numbers, got the type"),
    ],
)
def test_bad_ranks_are_refused(rank: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        checked_ranks(rank)  # type: ignore[arg-type]


def test_infinite_rank_is_absent() -> None:
    assert checked_ranks([[0.0, float("inf")]]).tolist() == [[0, ABSENT]]


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([0, 0, 0], "a whole number for each of 4"),
        ([0, 0, 0, 2], "expected 0 to 1, got 0 to 2"),
        ([-1, 0, 0, 0], "-1"),
    ],
)
def test_bad_segments_are_refused(segments: list[int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        coverage(RANK, [[1, 1], [1, 1]], segments)


def test_limits_of_other_nominators_are_refused() -> None:
    with pytest.raises(ConfigError, match="one for each of 2 nominators"):
        coverage(RANK, [1, 1, 1])


def test_limits_without_the_segments_they_are_for_are_refused() -> None:
    rank = np.array([[0, 3], [2, 1]])
    with pytest.raises(ConfigError, match="expected one for each positive with 2 rows of limits"):
        coverage(rank, [[1, 2], [3, 4]])
    with pytest.raises(ConfigError, match="expected whole numbers from 0"):
        coverage(rank, [2.7, 3])
    with pytest.raises(ConfigError, match="expected whole numbers from 0"):
        coverage(rank, [-5, 3])
