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


def test_a_log_without_times_and_categories_has_a_page():
    text = data_page(data_report(build_dataset(RawEvents(pa.array([1]), pa.array([10])))))
    assert "no times" in text
    assert "Categories" not in text
