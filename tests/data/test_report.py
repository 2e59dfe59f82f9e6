import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import RawEvents, build_dataset
from shortlist.data.report import as_json, gini, histogram, iso, summarise

DAY = 86_400_000


@pytest.fixture
def small():
    """Two users, three items; item c comes last, item a is met twice by the same user."""
    item_table = pa.table({"item": ["a", "b", "c"], "category": ["x", "x", None]})
    times = np.array([0, 1, 2, 10]) * DAY
    raw = RawEvents(pa.array([1, 1, 1, 2]), pa.array(["a", "b", "a", "c"]), times, item_table=item_table, read=6)
    return build_dataset(raw, "small", facts={"read": 6, "dropped": {"empty id": 2}})


def test_the_report_of_a_small_log(small):
    found = summarise(small)
    assert found["rows"] == {"read": 6, "kept": 4, "dropped": {"empty id": 2}}
    assert (found["users"], found["items"], found["density"]) == (2, 3, 0.5)
    assert found["time"] == {
        "clock": "ms",
        "first": "1970-01-01T00:00:00+00:00",
        "last": "1970-01-11T00:00:00+00:00",
        "days": 10.0,
    }
    assert found["repeats"] == {"pairs": 1, "exact": 0}
    assert (found["histories"]["min"], found["histories"]["max"], found["histories"]["mean"]) == (1, 3, 2)
    assert found["popularity"]["top_10_percent"] == 0.5
    assert found["cold"] == {"few": 5, "users": 1.0, "items": 1.0, "new_items": 1 / 3}
    assert found["categories"] == {
        "count": 2,
        "top": [{"category": "x", "items": 2, "events": 3}, {"category": "", "items": 1, "events": 1}],
    }


def test_the_report_is_json_and_says_the_same_again(small):
    assert json.loads(as_json(summarise(small))) == summarise(small)


def test_where_only_the_order_is_known_there_is_no_time():
    found = summarise(build_dataset(RawEvents(pa.array([1, 1]), pa.array([7, 7]))))
    assert found["time"] == {"clock": "order", "first": None, "last": None, "days": None}
    assert found["cold"]["new_items"] is None
    assert found["repeats"] == {"pairs": 1, "exact": 0}
    assert found["categories"] == {"count": 0, "top": []}


def test_steps_of_the_histogram_double():
    assert histogram(np.array([1, 2, 3, 4, 7, 8])) == [
        {"from": 1, "to": 1, "count": 1},
        {"from": 2, "to": 3, "count": 2},
        {"from": 4, "to": 7, "count": 2},
        {"from": 8, "to": 15, "count": 1},
    ]
    assert histogram(np.array([], np.int64)) == []


def test_gini_of_equals_is_zero_and_of_one_who_has_all_is_near_one():
    assert gini(np.array([3, 3, 3])) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 9])) == pytest.approx(0.75)
    assert gini(np.array([0, 0])) == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_gini_is_the_mean_difference_over_twice_the_mean(counts):
    values = np.array(counts, np.int64)
    differences = np.abs(values[:, None] - values[None, :]).mean()
    expected = differences / (2 * values.mean()) if values.sum() else 0.0
    assert gini(values) == pytest.approx(expected, abs=1e-9)


def test_a_time_no_calendar_reaches_is_told_as_a_number():
    assert iso(10**18) == "1000000000000000000 ms"
