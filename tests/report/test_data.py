"""The page of a data report."""

import numpy as np
import pyarrow as pa

from shortlist.data import RawEvents, build_dataset
from shortlist.data.dataset import LogFacts
from shortlist.data.report import data_report
from shortlist.report.data import data_page


def test_the_page_shows_the_counts_and_escapes_text():
    item_table = pa.table({"item": [10, 11], "category": ["<news>", ""]})
    raw = RawEvents(pa.array([1, 1, 2]), pa.array([10, 11, 10]), np.array([1, 2, 3]), item_table=item_table)
    facts = LogFacts(read=1234, dropped={"empty id": 1231})
    text = data_page(data_report(build_dataset(raw, "a <log>", facts=facts)))
    assert "Data: a &lt;log&gt;" in text
    assert "dropped: empty id" in text
    assert "1,231" in text
    assert "&lt;news&gt;" in text
    assert "<news>" not in text
    assert text.count("<svg") == 3
    order = ["<h2>Verdict</h2>", "<svg", "<h2>First events</h2>", "<h2>Overview</h2>"]
    assert [text.index(one) for one in order] == sorted(text.index(one) for one in order)
    assert "3 events of 2 users with 2 items" in text


def test_a_log_without_times_and_categories_has_a_page():
    text = data_page(data_report(build_dataset(RawEvents(pa.array([1]), pa.array([10])))))
    assert "no times" in text
    assert "Categories" not in text


def test_sample_shows_ids_titles_and_categories_and_only_columns_that_say_something():
    item_table = pa.table({"item": [10, 11], "title": ["<Ten>", None], "category": ["a|b", None]})
    raw = RawEvents(pa.array([1, 2]), pa.array([10, 11]), np.array([60_000, 120_000]), item_table=item_table)
    text = data_page(data_report(build_dataset(raw)))
    sample = text[text.index("First events") : text.index("Overview")]
    for cell in ("10", "&lt;Ten&gt;", "a, b", "1970-01-01 00:01"):
        assert f"<td>{cell}</td>" in sample
    assert "weight" not in sample
