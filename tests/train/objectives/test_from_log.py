"""Logged requests as training data."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.data import Vocabulary
from shortlist.errors import DataError
from shortlist.feedback import logged_requests
from shortlist.train.objectives.from_log import stage_log, take_requests

ITEMS, USERS = Vocabulary.of([10, 11, 12, 13]), Vocabulary.of([5, 6])


def record(**changed):
    """Two requests of two stages with three candidates each; the last of each is served."""
    made = logged_requests(
        np.array([1, 2]),
        np.array([100, 200]),
        np.array([6, 5]),
        np.array([0, 3, 6]),
        np.array([10, 11, 12, 13, 12, 11]),
        np.array([0, 1, 2, 0, 1, 2]),
        np.array([[2, 1], [2, 1]]),
        incl_prob=np.array([0.5, 1, 1, 0.5, 1, 1], np.float32),
        y=np.array([-1, -1, 1, -1, -1, 0], np.int8),
    )
    return replace(made, **changed)


def counts(left_out):
    return {name: count for name, count in left_out.counts.items() if count}


def test_ids_become_rows_and_nothing_is_left_out():
    log, left_out = stage_log(record(), ITEMS, USERS)
    assert log.user_id.tolist() == [1, 0]
    assert log.item_id.tolist() == [0, 1, 2, 3, 2, 1]
    assert log.stage.tolist() == [0, 1, 2, 0, 1, 2]
    assert log.stratum.tolist() == [0, 1, 3, 0, 1, 2]
    assert log.incl_prob.tolist() == [0.5, 1, 1, 0.5, 1, 1]
    assert (log.n_items, log.n_stages, counts(left_out), left_out.explained) == (4, 2, {}, ())


def test_unknown_items_and_filtered_candidates_are_left_out_and_counted():
    given = record(item_id=np.array([10, 99, 12, 98, 12, 11]), filtered=np.array([1, 1, 0, 0, 0, 0], bool))
    log, left_out = stage_log(given, ITEMS, USERS)
    assert log.item_id.tolist() == [2, 2, 1]
    assert log.offsets.tolist() == [0, 1, 3]
    assert counts(left_out) == {"unknown_item": 2, "filtered": 1}
    assert left_out.explained[0].startswith("2 candidates that are not in the catalogue")


def test_requests_of_unknown_users_are_left_out_whole():
    log, left_out = stage_log(record(user_id=np.array([7, 5])), ITEMS, USERS)
    assert (log.user_id.tolist(), log.item_id.tolist()) == ([0], [3, 2, 1])
    assert counts(left_out) == {"unknown_user": 1}


def test_requests_with_another_number_of_stages_are_left_out():
    log, left_out = stage_log(record(n_stages=np.array([2, 1])), ITEMS, USERS, n_stages=2)
    assert (log.n_stages, len(log.user_id)) == (2, 1)
    assert counts(left_out) == {"other_stages": 1}
    assert "number of stages than 2" in left_out.explained[0]


def test_a_missing_probability_is_never_taken_as_one():
    given = record(incl_prob=np.array([np.nan, 1, 1, 0.5, 1, 1], np.float32))
    log, left_out = stage_log(given, ITEMS, USERS)
    assert (log.incl_prob, log.n_rows, counts(left_out)) == (None, 6, {"unweighted": 1})
    log, left_out = stage_log(given, ITEMS, USERS, weighted=True)
    assert (log.incl_prob.tolist(), counts(left_out)) == ([1, 1, 0.5, 1, 1], {"no_probability": 1})


def test_served_candidates_without_a_label_stay_and_are_counted():
    log, left_out = stage_log(record(y=np.full(6, -1, np.int8)), ITEMS, USERS)
    assert log.stratum.tolist() == [0, 1, -1, 0, 1, -1]
    assert counts(left_out) == {"no_label": 2}


def test_several_records_are_joined():
    log, left_out = stage_log([record(), record()], ITEMS, USERS)
    assert (len(log.user_id), left_out.requests, left_out.candidates) == (4, 4, 12)


def test_some_requests_keep_their_rows():
    log, _ = stage_log(record(), ITEMS, USERS)
    part = take_requests(log, np.array([1]))
    assert (part.user_id.tolist(), part.item_id.tolist(), part.offsets.tolist()) == ([0], [3, 2, 1], [0, 3])
    assert (part.y.tolist(), part.incl_prob.tolist()) == ([-1, -1, 0], [0.5, 1, 1])


def test_an_empty_log_is_refused():
    with pytest.raises(DataError, match="at least one request"):
        stage_log([], ITEMS, USERS)
