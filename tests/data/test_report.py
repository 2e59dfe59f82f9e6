"""The data report of small logs, worked out by hand."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shortlist.artifact.as_json import as_json
from shortlist.data import RawEvents, build_dataset
from shortlist.data.dataset import LogFacts
from shortlist.data.report import (
    Bin,
    Categories,
    CategoryCount,
    ColdStart,
    Repeats,
    RowCounts,
    SampleEvent,
    TimeSpan,
    data_report,
    gini,
    histogram,
    iso,
)

DAY = 86_400_000


@pytest.fixture
def small():
    """Two users, three items; item c comes last, one user has item a twice."""
    item_table = pa.table({"item": ["a", "b", "c"], "category": ["x", "x", None]})
    times = np.array([0, 1, 2, 10]) * DAY
    raw = RawEvents(
        pa.array([1, 1, 1, 2]), pa.array(["a", "b", "a", "c"]), times, item_table=item_table, read=6
    )
    return build_dataset(raw, "small", facts=LogFacts(read=6, dropped={"empty id": 2}))


def test_the_report_of_a_small_log(small):
    report = data_report(small)
    assert report.rows == RowCounts(read=6, kept=4, dropped={"empty id": 2})
    assert (report.users, report.items, report.density) == (2, 3, 0.5)
    assert report.time == TimeSpan("ms", "1970-01-01T00:00:00+00:00", "1970-01-11T00:00:00+00:00", 10.0)
    assert report.repeats == Repeats(pairs=1, exact=0)
    assert (report.histories.min, report.histories.max, report.histories.mean) == (1, 3, 2)
    assert report.concentration.top_10_percent == 0.5
    assert report.cold == ColdStart(few=5, users=1.0, items=1.0, new_items=1 / 3)
    assert report.categories == Categories(2, (CategoryCount("x", 2, 3), CategoryCount("", 1, 1)))


def test_an_item_with_several_categories_counts_in_each():
    item_table = pa.table({"item": ["a", "b"], "category": ["x|y", "y"]})
    raw = RawEvents(pa.array([1, 1, 1]), pa.array(["a", "b", "a"]), item_table=item_table)
    categories = data_report(build_dataset(raw)).categories
    assert categories == Categories(2, (CategoryCount("y", 2, 3), CategoryCount("x", 1, 2)))


def test_the_report_as_json_keeps_every_field(small):
    report = data_report(small)
    answer = json.loads(json.dumps(as_json(report), allow_nan=False))
    assert answer["rows"] == {"read": 6, "kept": 4, "dropped": {"empty id": 2}}
    assert answer["histories"]["histogram"][0] == {"low": 1, "high": 1, "count": 1}
    assert answer["split"] == {"protocol": "half-history"}
    assert answer == as_json(report)


def test_a_log_without_times_has_no_time_span():
    report = data_report(build_dataset(RawEvents(pa.array([1, 1]), pa.array([7, 7]))))
    assert report.rows == RowCounts(read=2, kept=2, dropped={})
    assert report.time == TimeSpan("order", None, None, None)
    assert report.cold.new_items is None
    assert report.repeats == Repeats(pairs=1, exact=0)
    assert report.categories == Categories(0, ())


def test_histogram_bins_double_in_width():
    assert histogram(np.array([1, 2, 3, 4, 7, 8])) == (
        Bin(1, 1, 1),
        Bin(2, 3, 2),
        Bin(4, 7, 2),
        Bin(8, 15, 1),
    )
    assert histogram(np.array([0, 1, 1])) == (Bin(0, 0, 1), Bin(1, 1, 2))
    assert histogram(np.array([], np.int64)) == ()


def test_gini_is_zero_for_equal_counts_and_near_one_if_one_item_has_all():
    assert gini(np.array([3, 3, 3])) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 9])) == pytest.approx(0.75)
    assert gini(np.array([0, 0])) == 0


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_gini_is_the_mean_difference_over_twice_the_mean(counts):
    values = np.array(counts, np.int64)
    differences = np.abs(values[:, None] - values[None, :]).mean()
    expected = differences / (2 * values.mean()) if values.sum() else 0.0
    assert gini(values) == pytest.approx(expected, abs=1e-9)


def test_a_time_outside_the_calendar_is_given_in_milliseconds():
    assert iso(10**18) == "1000000000000000000 ms"


def log_of(lengths, described=None):
    """A log with users of these numbers of events, an hour apart; the first `described` items have titles."""
    users = np.repeat(np.arange(len(lengths)), lengths)
    items = np.concatenate([np.arange(length) for length in lengths])
    table = (
        None if described is None else pa.table({"item": np.arange(described), "title": ["t"] * described})
    )
    times = np.arange(len(users)) * 3_600_000
    settings = {"protocol": "leave-last-out"}
    raw = RawEvents(pa.array(users), pa.array(items), times, item_table=table)
    return build_dataset(raw, split_settings=settings)


def test_the_verdict_has_sizes_what_histories_mean_and_how_models_are_measured():
    lengths = ([3, 2, 4, 60], [6, 7, 4, 60], [20, 4, 20, 60])
    sparse, short, long = (data_report(log_of(one)) for one in lengths)
    assert sparse.verdict == (
        "69 events of 4 users with 60 items in 3 days.",
        "75% of users have fewer than 5 events, 25% have 5 or more (median 3.5): most users have too few events to "
        "learn an order from, so co-visits and popularity suit them better than sequence models.",
        "Models are measured by leave-last-out on 3 test requests.",
    )
    assert short.verdict[1].startswith(
        "25% of users have fewer than 5 events, 75% have 5 or more (median 6.5): short histories; co-visits and matrix"
    )
    assert long.verdict[1] == (
        "25% of users have fewer than 5 events, 75% have 5 or more (median 20): enough for sequence models and for "
        "matrix factorisation."
    )
    reason = replace(LogFacts(), split_reason="leave-last-out: the log has no times")
    assert data_report(replace(log_of([3, 4]), facts=reason)).verdict[2] == (
        "Models are measured by leave-last-out on 2 test requests, because the log has no times."
    )
    assert "nothing can be measured" in data_report(log_of([1, 1])).verdict[2]


def test_the_report_warns_if_less_than_half_of_the_items_are_described():
    assert data_report(log_of([10], described=5)).warnings == ()
    assert data_report(log_of([10])).warnings == (), "no item table"
    (warning,) = data_report(log_of([10], described=4)).warnings
    assert warning.startswith("the item table describes 4 of 10 items (40%): the others have no title")
    assert "--column item.id=NAME" in warning


def test_the_report_shows_the_first_events_with_ids_and_titles(small):
    titles = pa.table({"title": ["A", None, "C"], "category": [["x", "y"], None, []]})
    catalog = replace(small.catalog, table=titles)
    sample = data_report(replace(small, catalog=catalog)).sample
    assert len(sample) == 4
    assert sample[0] == SampleEvent(1, "a", "A", ("x", "y"), "1970-01-01T00:00:00+00:00", 1.0)
    assert (sample[1].item, sample[1].title, sample[1].categories) == ("b", "b", ())
