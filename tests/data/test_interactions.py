"""Interactions: sorted, read-only and checked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Interactions
from shortlist.data.interactions import by_user_then_time
from shortlist.errors import DataError

from .logs import logs

events_lists = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6), st.integers(-3, 3)), max_size=60)


@settings(max_examples=100, deadline=None)
@given(events_lists)
def test_sorting_equals_a_stable_sort_by_user_then_time(rows):
    users, items, times = (
        np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [], []))
    )
    mark = np.arange(len(rows))
    events = Interactions.of(users, items, times, weights=mark, columns={"mark": mark})
    order = np.lexsort((mark, times, users))
    assert events.columns["mark"].tolist() == order.tolist()
    for column, given_one in zip(
        (events.users, events.items, events.times), (users, items, times), strict=True
    ):
        assert column.tolist() == given_one[order].tolist()
    assert events.weights.tolist() == order.tolist()


def test_sorted_events_are_not_sorted_again():
    assert by_user_then_time(np.array([0, 0, 1], np.int32), np.array([1, 1, 0])) is None
    assert by_user_then_time(np.array([0, 0, 1], np.int32), np.array([2, 1, 0])).tolist() == [1, 0, 2]
    assert by_user_then_time(np.array([1, 0, 1], np.int32), np.array([0, 1, 2])).tolist() == [1, 0, 2]


def test_without_times_the_position_is_the_time():
    events = Interactions.of([1, 0, 1], [5, 6, 7])
    assert events.items.tolist() == [6, 5, 7]
    assert events.times.tolist() == [1, 0, 2]
    assert events.weights.tolist() == [1.0, 1.0, 1.0]


def test_columns_are_read_only_also_under_a_mask():
    events = Interactions.of([1, 0, 1], [5, 6, 7], columns={"extra": np.array([1, 2, 3])})
    for part in (events, events.where(events.items > 5), events.where(np.array([0, 2]))):
        for column in (part.users, part.items, part.times, part.weights, part.columns["extra"]):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 9


@settings(max_examples=50, deadline=None)
@given(logs())
def test_events_of_a_user_are_contiguous(events):
    assert events.starts[0] == 0
    assert events.starts[-1] == len(events)
    for user in range(events.n_users):
        assert (events.users[events.of_user(user)] == user).all()
    assert events.lengths.tolist() == np.bincount(events.users, minlength=8).tolist()
    assert events.popularity.tolist() == np.bincount(events.items, minlength=12).tolist()
    seen = np.zeros((8, 12))
    seen[events.users, events.items] = 1
    assert (events.matrix().toarray() == seen).all()


def test_a_mask_keeps_row_numbers_and_sizes():
    events = Interactions.of([0, 1, 2], [3, 4, 5], n_users=9, n_items=8)
    some = events.where(events.users == 1)
    assert (some.n_users, some.n_items, some.items.tolist()) == (9, 8, [4])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"items": [1]}, r"columns of one length, got \{'users': 2, 'items': 1, 'times': 2, 'weights': 2\}"),
        ({"times": [1, 2, 3]}, "'times': 3"),
        ({"weights": [1.0]}, "'weights': 1"),
        ({"columns": {"rating": np.array([1])}}, "'rating': 1"),
        ({"users": [0, -2]}, "users must be rows 0 or above, got -2"),
        ({"items": [-1, 0]}, "items must be rows 0 or above, got -1"),
        ({"items": [0, 2**32]}, r"items must be rows below 2\*\*31, got 4294967296"),
        ({"items": [-(2**32) + 5, 0]}, "items must be rows 0 or above, got -4294967291"),
        ({"users": [0, np.nan]}, "users must be rows 0 or above, got nan"),
        ({"users": np.array([0, 2**63], np.uint64)}, r"users must be rows below 2\*\*31"),
        ({"times": [0.0, np.nan]}, "times must be finite numbers of 64 bits, got nan"),
        ({"times": [0.0, np.inf]}, "times must be finite numbers of 64 bits, got inf"),
        ({"times": [-np.inf, 1.0]}, "times must be finite numbers of 64 bits, got -inf"),
        ({"times": [0.5, 2.0**63]}, "times must be finite numbers of 64 bits, got 9.22"),
        ({"times": np.array([0, 2**63], np.uint64)}, "times must be finite numbers of 64 bits, got 9223372"),
        ({"times": [0, 2**70]}, "times must be finite numbers of 64 bits, got 11805"),
        ({"n_users": 1}, "n_users is 1, but user row 1 occurs"),
        ({"n_items": 3}, "n_items is 3, but item row 3 occurs"),
    ],
)
def test_invalid_columns_raise_an_error_with_their_name(columns, message):
    with pytest.raises(DataError, match=message):
        Interactions.of(**{"users": [0, 1], "items": [2, 3], **columns})


def test_2_31_events_are_refused():
    many = np.broadcast_to(np.int32(0), 2**31)
    with pytest.raises(DataError, match=r"fewer than 2\*\*31 events, got 2,147,483,648"):
        Interactions.of(many, many)


def test_fractional_times_are_truncated_after_sorting():
    events = Interactions.of([0, 0], [1, 2], [7.9, 7.1])
    assert (events.items.tolist(), events.times.tolist()) == ([2, 1], [7, 7])


def test_the_fingerprint_depends_on_every_event_and_not_on_input_order():
    base = Interactions.of([0, 1], [2, 3], [5, 6])
    assert Interactions.of([1, 0], [3, 2], [6, 5]).fingerprint == base.fingerprint
    others = [
        Interactions.of([0, 0], [2, 3], [5, 6]),
        Interactions.of([0, 1], [2, 2], [5, 6]),
        Interactions.of([0, 1], [2, 3], [5, 7]),
        Interactions.of([0, 1], [2, 3], [5, 6], [1.0, 2.0]),
        Interactions.of([0, 1], [2, 3], [5, 6], n_items=9),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_a_log_can_be_empty():
    empty = Interactions.of([], [], n_users=2, n_items=3)
    assert len(empty) == 0
    assert empty.lengths.tolist() == [0, 0]
    assert empty.popularity.tolist() == [0, 0, 0]


def test_strengths_have_mean_one_and_equal_weights_have_none():
    events = Interactions.of(np.array([0, 0, 1]), np.array([0, 1, 1]), weights=np.array([1.0, 2.0, 6.0]))
    assert events.strengths.tolist() == pytest.approx([1 / 3, 2 / 3, 2])
    assert events.weighted_popularity.tolist() == pytest.approx([1 / 3, 8 / 3])
    equal = replace(events, weights=np.full(3, 3.0, np.float32))
    assert equal.strengths is None
    assert equal.weighted_popularity is equal.popularity
    assert (equal.weighted_matrix() != equal.matrix()).nnz == 0
    assert Interactions.of(np.empty(0, int), np.empty(0, int)).strengths is None


def test_weighted_matrix_holds_the_largest_strength_of_a_pair():
    weights = np.array([1.0, 3.0, 2.0, 2.0])
    events = Interactions.of(np.array([0, 0, 0, 1]), np.array([2, 2, 0, 1]), weights=weights, n_items=4)
    assert events.weighted_matrix().toarray().tolist() == [[1.0, 0, 1.5, 0], [0, 1.0, 0, 0]]


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_weights_that_are_no_strengths_are_refused(bad):
    events = Interactions.of(np.array([0, 0, 1]), np.array([0, 1, 1]), weights=np.array([0.5, bad, 2.0]))
    expected = (
        rf"weights: expected numbers above 0, got 1 of 3 that are not, the first is {bad:g}; drop those events with "
        "--min-weight 0.5, add a constant to the column, or count every event once with --weights implicit"
    )
    with pytest.raises(DataError, match=expected):
        _ = events.strengths
    assert events.unweighted().strengths is None


def test_strengths_of_examples_have_the_mean_one_over_those_that_count():
    events = Interactions.of(np.zeros(4, int), np.arange(4), weights=np.array([1.0, 2.0, 3.0, 4.0]))
    some = replace(events, examples=np.array([1, 0, 1, 0.5], np.float32))
    assert some.strengths.tolist() == [0.5, 0, 1.5, 1]
    assert some.unweighted().strengths.tolist() == pytest.approx([1.2, 0, 1.2, 0.6])
    assert some.where(np.array([1, 2])).strengths.tolist() == [0, 1]
    assert some.where(np.array([1])).strengths.tolist() == [0]
    assert replace(events.unweighted(), examples=np.full(4, 0.3, np.float32)).strengths is None
    assert some.fingerprint != events.fingerprint
