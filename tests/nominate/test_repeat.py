"""Items of the user's own history, by how often and how recently they were taken."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.nominate import Repeat
from shortlist.nominate.repeat import distinct
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, query_of

HISTORIES = st.lists(st.lists(st.integers(0, N_ITEMS - 1), max_size=9), min_size=1, max_size=4)


def slow(stage, history):
    """Item -> sum of history_decay ** age over its events, with a dictionary."""
    total = {}
    for age, item in enumerate(reversed(history)):
        total[item] = total.get(item, 0.0) + stage.history_decay**age
    return total


def test_frequent_and_recent_items_come_first():
    nominated = Repeat(history_decay=0.5, limit=2).nominate(query_of([4, 4, 4, 7, 1], []))
    assert nominated.items.tolist() == [[1, 7], [-1, -1]]
    assert nominated.scores[0].tolist() == pytest.approx([1.0, 0.5])
    assert Repeat(history_decay=1.0, limit=1).nominate(query_of([4, 4, 7])).items.tolist() == [[4]]


@settings(max_examples=60, deadline=None)
@given(HISTORIES, st.sampled_from([0.3, 0.95, 1.0]))
def test_scores_equal_a_dictionary_of_sums(histories, decay):
    stage = Repeat(history_decay=decay, limit=N_ITEMS)
    query = query_of(*histories)
    nominated = stage.nominate(query)
    every = torch.arange(N_ITEMS).expand(len(histories), -1)
    columns = stage.item_columns(query, every)["score"]
    for row, history in enumerate(histories):
        expected = slow(stage, history)
        valid = nominated.valid[row]
        found = dict(
            zip(nominated.items[row][valid].tolist(), nominated.scores[row][valid].tolist(), strict=True)
        )
        assert found == pytest.approx(expected)
        assert columns[row].tolist() == pytest.approx([expected.get(item, 0.0) for item in range(N_ITEMS)])


def test_every_item_of_a_history_is_distinct_once():
    assert distinct(torch.tensor([[3, 1, 3, -1]])).tolist() == [[-1, 1, 3, -1]]
    assert distinct(torch.empty(2, 0, dtype=torch.int64)).shape == (2, 0)


def test_it_is_a_stage_like_any_other():
    check_stage(Repeat(limit=3), n_items=N_ITEMS)
