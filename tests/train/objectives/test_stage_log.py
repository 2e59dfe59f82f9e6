from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import DataError
from shortlist.train.objectives import StageLog
from shortlist.train.objectives.stage_log import Segments, UserItems, distinct


def log(**changes):
    columns = {
        "user_id": np.array([1, 0]),
        "offsets": np.array([0, 3, 4]),
        "item_id": np.array([5, 6, 7, 5]),
        "stage": np.array([2, 2, 1, 2]),
        "y": np.array([1, 0, -1, -1]),
        "n_items": 8,
        "n_stages": 2,
    }
    return StageLog(**(columns | changes))


def test_stratum_parts_shown_items_by_feedback_and_has_none_for_unknown():
    assert log().stratum.tolist() == [3, 2, 1, -1]
    assert log().request.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stage": np.array([2, 2, 1])}, "stage has 3 rows, but offsets end at 4"),
        ({"user_id": np.array([1])}, "1 requests need 2 offsets"),
        ({"offsets": np.array([0, 5, 4])}, "offsets that never fall"),
        ({"item_id": np.array([5, 6, 7, 8])}, r"item_id must lie in 0\.\.7, got 5\.\.8"),
        ({"item_id": np.array([5, 6, 7, -1])}, r"item_id must lie in 0\.\.7, got -1\.\.7"),
        ({"stage": np.array([2, 3, 1, 2])}, r"stage must lie in 0\.\.2, got 1\.\.3"),
        ({"user_id": np.array([1, -1])}, "user_id must not be negative, got -1"),
        ({"y": np.array([1, 0, 2, -1])}, "y must be 1, 0 or -1"),
        ({"incl_prob": np.array([1, 1, 0.0, 1])}, r"incl_prob must lie in \(0, 1\]"),
        ({"incl_prob": np.array([1, 1, np.nan, 1])}, r"incl_prob must lie in \(0, 1\]"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        log(**changes)


def test_distinct_numbers_are_uniform_over_subsets():
    found = distinct(np.full(60_000, 4), 2, np.random.default_rng(0))
    counts = Counter(tuple(sorted(one)) for one in found.tolist())
    assert set(counts) == set(combinations(range(4), 2))
    assert max(abs(one / 60_000 - 1 / 6) for one in counts.values()) < 0.01


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 5), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_distinct_numbers_are_below_their_size_and_as_many_as_possible(sizes, count, seed):
    found = distinct(np.array(sizes, np.int64), count, np.random.default_rng(seed))
    assert found.shape == (len(sizes), count)
    for size, own in zip(sizes, found.tolist(), strict=True):
        valid = [one for one in own if one >= 0]
        assert len(set(valid)) == len(valid) == min(size, count)
        assert all(one < size for one in valid)


def test_segments_draw_only_rows_of_their_request_and_stratum():
    rng = np.random.default_rng(1)
    request, stratum = np.sort(rng.integers(0, 20, 300)), rng.integers(-1, 4, 300)
    segments = Segments.of(request, stratum, 20, 4)
    asked = rng.integers(0, 20, 50)
    for part in range(4):
        rows = segments.draw(asked, part, 3, rng)
        of = asked[:, None].repeat(3, 1)[rows >= 0]
        assert (request[rows[rows >= 0]] == of).all()
        assert (stratum[rows[rows >= 0]] == part).all()
        available = [int(((request == one) & (stratum == part)).sum()) for one in asked]
        assert segments.counts_of(asked, part).tolist() == available
        assert (rows >= 0).sum(1).tolist() == [min(one, 3) for one in available]


def test_segments_of_an_empty_log_draw_nothing():
    none = np.empty(0, np.int64)
    assert (
        Segments.of(none, none, 2, 3).draw(np.array([0, 1]), 1, 2, np.random.default_rng(0)).tolist()
        == [[-1] * 2] * 2
    )


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=30))
@settings(max_examples=60, deadline=None)
def test_items_outside_a_set_are_exactly_the_others(n_items, pairs):
    pairs = [(user, item % n_items) for user, item in pairs]
    users, items = np.array(pairs, np.int64).reshape(-1, 2).T
    sets = UserItems.of(users, items, 3, n_items)
    found = sets.others(np.arange(3), 400, np.random.default_rng(0))
    for user in range(3):
        others = set(range(n_items)) - {item for owner, item in pairs if owner == user}
        assert set(found[user].tolist()) == (others or {-1})
        assert sets.free(np.array([user])).tolist() == [len(others)]


def test_items_outside_a_set_are_uniform():
    sets = UserItems.of(np.zeros(4, np.int64), np.array([0, 3, 4, 9]), 1, 10)
    found = sets.others(np.zeros(1, np.int64), 60_000, np.random.default_rng(0))
    share = np.bincount(found[0], minlength=10) / 60_000
    assert np.abs(share[[1, 2, 5, 6, 7, 8]] - 1 / 6).max() < 0.01
    assert share[[0, 3, 4, 9]].sum() == 0


def test_standardised_scores_have_mean_0_and_deviation_1_per_stage_and_constant_ones_are_0():
    scores = np.array([[1.0, np.nan, 5], [2, np.nan, 5], [6, np.nan, np.nan]], np.float32)
    log = StageLog(
        np.array([0]),
        np.array([0, 3]),
        np.arange(3),
        np.array([1, 2, 3]),
        np.full(3, -1),
        3,
        3,
        scores=scores,
    )
    made = log.standardised()
    assert (log.scored, made.scored) == ((1, 3), (1, 3))
    assert np.allclose(made.scores_of(1), (scores[:, 0] - 3) / np.std(scores[:, 0]))
    assert np.array_equal(made.scores_of(3), [0, 0, np.nan], equal_nan=True)
    assert log.next_stage(1) == 3
    assert log.next_stage(3) is None
