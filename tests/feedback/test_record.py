"""The record: ragged selection, joining, and rows in place of ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Vocabulary
from shortlist.errors import DataError
from shortlist.feedback import concat, from_trace, logged_requests
from tests.feedback.logs import funnel, meta_of, traces
from tests.feedback.write.test_sampling import request


def record():
    return concat([request([1, 2, number], number) for number in range(4)])


@given(st.lists(st.integers(0, 3), max_size=6))
def test_taken_requests_keep_their_candidates(rows):
    taken = record().take(np.array(rows, np.int64))
    assert taken.request_id.tolist() == rows
    assert taken.counts.tolist() == [3 + row for row in rows]
    for place, row in enumerate(rows):
        assert taken.stage[taken.request == place].tolist() == [0, 1, 1] + [2] * row


def test_joined_records_are_as_deep_as_the_deepest():
    runs = [traces(funnel(20, 5), 1)[0], traces(funnel(20, 10, 5), 1)[0]]
    joined = concat([from_trace(one, meta_of(one, first=number)) for number, one in enumerate(runs)])
    assert (joined.depth, joined.n_stages.tolist()) == (3, [2, 3])
    assert joined.n_out.tolist() == [[20, 5, -1], [20, 10, 5]]
    assert joined.strata().tolist() == [[0, 15, 5, 0], [0, 10, 5, 5]]
    assert [len(joined.funnels[at].stages) for at in joined.funnel] == [2, 3]
    assert np.isnan(joined.scores[joined.request == 0, 2]).all()


@pytest.mark.parametrize("ids", [["b", "a", "new"], ["7", "5", "6"], [7, 5, 6]])
def test_ids_become_rows_of_a_vocabulary(ids):
    items = Vocabulary.of(["a", "b"]) if ids[0] == "b" else Vocabulary.of([5, 7])
    made = logged_requests(
        np.array([1]),
        np.array([0]),
        np.array(["u"], object),
        np.array([0, 3]),
        np.array(ids, object if isinstance(ids[0], str) else np.int64),
        np.array([1, 1, 1]),
        np.array([[3]]),
    ).as_rows(items, Vocabulary.of(["u"]))
    assert made.item_id.tolist() == [1, 0, -1]
    assert made.user_id.tolist() == [0]


def test_arrays_of_different_requests_are_refused():
    with pytest.raises(DataError, match="expected 2 offsets that end at 2 candidates"):
        logged_requests(*map(np.array, ([1], [0], [0], [0, 3], [5, 6], [1, 1], [[2]])))


def test_what_is_not_given_is_not_known():
    one = request([0, 2, 1])
    assert np.isnan(one.scores).all()
    assert set(one.shown) == set(one.y) == {-1}
    assert np.isnan(one.incl_prob).all()
    assert one.nbytes > 0
