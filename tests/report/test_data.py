import numpy as np
import pyarrow as pa

from shortlist.data import RawEvents, build_dataset
from shortlist.data.report import summarise
from shortlist.report.data import data_page


def test_the_page_shows_what_was_counted():
    item_table = pa.table({"item": [10, 11], "category": ["<news>", ""]})
    raw = RawEvents(pa.array([1, 1, 2]), pa.array([10, 11, 10]), np.array([1, 2, 3]), item_table=item_table)
    facts = {"read": 1234, "dropped": {"empty id": 1231}}
    text = data_page(summarise(build_dataset(raw, "a <log>", facts=facts)))
    assert "Data: a &lt;log&gt;" in text
    assert "left out: empty id" in text
    assert "1,231" in text
    assert "&lt;news&gt;" in text
    assert "<news>" not in text
    assert text.count("<svg") == 3


def test_a_log_without_times_and_categories_has_a_page_too():
    text = data_page(summarise(build_dataset(RawEvents(pa.array([1]), pa.array([10])))))
    assert "order only" in text
    assert "Categories" not in text
