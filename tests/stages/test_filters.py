"""Filters: items of the history, excluded items, unavailable items."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.stages import Available, Seen
from shortlist.stages.filters import Excluded
from shortlist.testing.stages import check_stage
from tests.worlds import found, listed, query_of, run_checked


def with_context(query, **context):
    return Query(
        query.user, query.history, query.time, query.seed, {k: torch.tensor(v) for k, v in context.items()}
    )


def kept(stage, query, field):
    return [row[mask].tolist() for row, mask in zip(field.items, stage(query, field).valid, strict=True)]


FIELD = found([1.0] * 6, [1.0] * 6)


def test_items_of_the_history_are_dropped():
    assert kept(Seen(), query_of([0, 2], [5]), FIELD) == [[1, 3, 4, 5], [0, 1, 2, 3, 4]]


def test_only_the_recent_history_is_dropped():
    assert kept(Seen(last=2), query_of([0, 1, 2], [3]), FIELD) == [[0, 3, 4, 5], [0, 1, 2, 4, 5]]


def test_items_that_the_request_excludes_are_dropped():
    query = with_context(query_of([0], []), exclude=[[4, 5], [1, -1]])
    assert kept(Excluded(), query, FIELD) == [[0, 1, 2, 3], [0, 2, 3, 4, 5]]
    assert kept(Excluded(), query_of([0], []), FIELD) == [[0, 1, 2, 3, 4, 5]] * 2
    check_stage(Excluded(), 6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=2, max_size=2),
    st.lists(st.lists(st.integers(-1, 9), min_size=3, max_size=3), min_size=2, max_size=2),
    st.integers(0, 4),
)
def test_seen_equals_set_difference(histories, excluded, last):
    query = with_context(query_of(*histories), exclude=excluded)
    field = Candidates.of(torch.arange(10).repeat(2, 1), torch.zeros(2, 10))
    expected = [
        [item for item in range(10) if item not in (history[-last:] if last else history)]
        for history in histories
    ]
    assert kept(Seen(last), query, field) == expected
    assert kept(Excluded(), query, field) == [
        [item for item in range(10) if item not in gone] for gone in excluded
    ]


def test_history_of_width_0_drops_nothing():
    assert kept(Seen(), Query.of([[], []], width=0), FIELD) == [[0, 1, 2, 3, 4, 5]] * 2


def test_negative_last_is_refused():
    with pytest.raises(ConfigError, match="seen: last must be at least 0, got -1"):
        Seen(-1)


ALLOWED = torch.tensor([True, True, False, True, True, True])
CATEGORY = torch.tensor([0, 1, 0, 1, 2, 0])


def test_items_that_are_not_allowed_are_dropped():
    assert kept(Available(ALLOWED, CATEGORY), query_of([], []), FIELD) == [[0, 1, 3, 4, 5]] * 2


def test_request_may_ask_for_a_category_and_minus_one_is_any():
    query = with_context(query_of([], []), category=[0, -1])
    assert kept(Available(ALLOWED, CATEGORY), query, FIELD) == [[0, 5], [0, 1, 3, 4, 5]]


def test_item_with_several_categories_is_kept_for_each_of_them():
    lists = torch.tensor([[0, 2], [1, -1], [0, -1], [1, 0], [2, -1], [0, -1]])
    query = with_context(query_of([], []), category=[0, 2])
    assert kept(Available(ALLOWED, lists), query, FIELD) == [[0, 3, 5], [0, 4]]


def test_filter_may_remove_every_candidate():
    nobody = Available(torch.zeros(6, dtype=torch.bool), CATEGORY)
    slate = run_checked(listed("a", [0, 1, 2]) >> nobody, query_of())
    assert slate.items.tolist() == [[-1, -1, -1]]
    assert slate.trace.steps[1].removed.tolist() == [3]


@pytest.mark.parametrize(
    "stage",
    [Seen(), Seen(3), Available(torch.ones(20, dtype=torch.bool), torch.zeros(20, dtype=torch.int64))],
)
def test_stages_keep_their_contract_and_are_the_same_when_rebuilt(stage):
    check_stage(stage, 20)
    assert repr(type(stage).build(stage.settings(), stage.tensors())) == repr(stage)


def test_categories_are_settings_and_rows_are_tensors():
    stage = Available(ALLOWED, CATEGORY, only=("sea",), never=("air", "land"))
    assert stage.settings() == {"name": "", "only": ("sea",), "never": ("air", "land")}
    assert set(stage.tensors()) == {"allowed", "category"}
