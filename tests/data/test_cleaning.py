import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Interactions, RawEvents, build_dataset
from shortlist.data.cleaning import LogFilters, apply_filters, duplicates
from shortlist.errors import DataError


def log(rows, **rest):
    users, items, times, weights = zip(*rows, strict=True)
    item_table = pa.table({"item": ["a", "b", "c"], "title": ["A", "B", "C"]})
    user_table = pa.table({"user": ["x", "y", "z"], "age": [1, 2, 3]})
    columns = {"place": np.arange(len(rows))}
    raw = RawEvents(pa.array(users), pa.array(items), np.array(times), np.array(weights, np.float32), columns)
    return build_dataset(
        RawEvents(raw.users, raw.items, raw.times, raw.weights, columns, item_table, user_table), **rest
    )


LOG = [
    ("x", "a", 1, 5),
    ("x", "b", 1, 5),
    ("x", "a", 1, 4),
    ("y", "b", 2, 1),
    ("z", "c", 3, 2),
    ("z", "b", 4, 5),
]


def events(dataset):
    users = dataset.users.ids_of(dataset.events.users)
    return list(zip(users, dataset.items.ids_of(dataset.events.items), strict=True))


def test_filters_that_drop_nothing_return_the_same_data_set():
    dataset = log(LOG[3:])
    assert apply_filters(dataset, LogFilters()) == (dataset, {})


def test_an_exact_duplicate_is_dropped_and_its_first_event_kept():
    dataset, dropped = apply_filters(log(LOG), LogFilters())
    assert events(dataset) == [("x", "a"), ("x", "b"), ("y", "b"), ("z", "c"), ("z", "b")]
    assert dataset.events.weights[0] == 5
    assert dropped == {"exact duplicate": 1}


def test_without_times_a_repeated_pair_is_no_duplicate():
    dataset = build_dataset(RawEvents(pa.array([1, 1]), pa.array([7, 7])))
    assert apply_filters(dataset, LogFilters())[1] == {}


def test_users_and_items_that_lose_all_events_lose_their_rows():
    dataset, dropped = apply_filters(log(LOG), LogFilters(min_weight=3))
    assert events(dataset) == [("x", "a"), ("x", "b"), ("z", "b")]
    assert dropped == {"exact duplicate": 1, "weight below 3": 2}
    assert dataset.users.ids.to_pylist() == ["x", "z"]
    assert dataset.user_table["age"].to_pylist() == [1, 3]
    assert dataset.catalog.table["title"].to_pylist() == ["A", "B"]
    assert (dataset.events.n_users, dataset.events.n_items) == (2, 2)
    assert dataset.events.columns["place"].tolist() == [0, 1, 5]


def test_minimum_counts_apply_to_items_first_then_users():
    rows = [
        ("x", "a", 1, 1),
        ("x", "b", 2, 1),
        ("y", "b", 3, 1),
        ("y", "c", 4, 1),
        ("z", "c", 5, 1),
        ("z", "b", 6, 1),
    ]
    dataset, dropped = apply_filters(log(rows), LogFilters(min_user_events=2, min_item_events=2))
    assert events(dataset) == [("y", "b"), ("y", "c"), ("z", "c"), ("z", "b")]
    assert dropped == {"item with fewer than 2 events": 1, "user with fewer than 2 events": 1}


def test_core_repeats_until_both_minimum_counts_hold():
    chain = [("x", "a", 1, 1), ("x", "b", 2, 1), ("y", "b", 3, 1), ("y", "c", 4, 1), ("z", "c", 5, 1)]
    once, _ = apply_filters(log(chain), LogFilters(min_item_events=2, min_user_events=2))
    assert events(once) == [("y", "b"), ("y", "c")]
    with pytest.raises(DataError, match=r"no event is left"):
        apply_filters(log(chain), LogFilters(min_item_events=2, min_user_events=2, core=True))


def test_dropping_every_event_raises_an_error_with_counts():
    with pytest.raises(DataError, match=r"data: no event is left \(1 exact duplicate, 5 weight below 9\)"):
        apply_filters(log(LOG), LogFilters(min_weight=9))


rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=30)


@given(rows)
def test_duplicates_equal_those_found_by_a_set(found):
    events = Interactions.of(*(np.array(column) for column in zip(*found, strict=True)))
    seen, expected = set(), []
    for event in zip(events.users.tolist(), events.items.tolist(), events.times.tolist(), strict=True):
        expected.append(event in seen)
        seen.add(event)
    assert duplicates(events).tolist() == expected


@given(rows, st.integers(1, 4), st.integers(1, 4))
def test_after_core_every_user_and_item_has_enough_events(found, least_user, least_item):
    users, items, times = (np.array(column) for column in zip(*found, strict=True))
    dataset = build_dataset(RawEvents(pa.array(users), pa.array(items), times))
    try:
        left, dropped = apply_filters(dataset, LogFilters(False, None, least_user, least_item, core=True))
    except DataError:
        return
    assert left.events.lengths.min() >= least_user
    assert left.events.popularity.min() >= least_item
    assert len(left.events) + sum(dropped.values()) == len(found)
