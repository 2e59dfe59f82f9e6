import pyarrow as pa
import pytest

from shortlist.data.raw_events import Place
from shortlist.data.sources.behaviours import behaviour_mask, read_behaviours, to_shopping_events
from shortlist.data.tables.files import File
from shortlist.data.tables.parsed import ParsedTable
from shortlist.errors import ConfigError, DataError

KNOWN = {"0": "click", "2": "buy"}


def test_behaviours_are_renamed_and_unknown_or_unkept_ones_masked():
    dropped, names = behaviour_mask(pa.chunked_array([["0", "2"], ["9", "0"]]), KNOWN, " buy ,")
    assert dropped.tolist() == [True, False, True, True]
    assert names.to_pylist() == ["click", "buy", None, "click"]


@pytest.mark.parametrize("keep", ["", " , ", "like", "buy,like", "2"])
def test_behaviours_to_keep_must_be_known_names(keep):
    with pytest.raises(ConfigError) as caught:
        behaviour_mask(pa.chunked_array([["0"]]), KNOWN, keep)
    assert str(caught.value) == f"behaviours: expected some of click, buy, got {keep!r}"


def test_a_log_of_five_fields_is_read_and_dropped_rows_are_counted(put, events_of):
    file = File(put("log.csv", "1,10,5,0,1500000000\n1,11,6,2,1500000001\n2,10,7,9,1500000002\n"))
    raw = read_behaviours(file, KNOWN, "click,buy")
    assert events_of(raw) == [(1, 10, 1500000000000, None), (1, 11, 1500000001000, None)]
    assert raw.columns["behaviour"].tolist() == ["click", "buy"]
    assert (raw.read, raw.dropped) == (3, {"behaviour not kept": 1})


def test_only_kept_items_are_described_and_their_first_line_comes_first(put):
    file = File(put("log.csv", "1,10,5,0,1500000000\n1,11,6,2,1500000001\n2,11,7,2,1500000002\n"))
    item_table = read_behaviours(file, KNOWN, "buy").item_table
    assert item_table.to_pylist() == [{"item": 11, "category": "6"}, {"item": 11, "category": "7"}]


def test_times_may_be_in_another_unit():
    columns = {"user": ["a"], "item": ["b"], "category": ["c"], "behaviour": ["2"], "time": [1500000000000]}
    found = ParsedTable(
        pa.table(columns), "log", lambda rows: [Place("log", str(row + 1), "") for row in rows]
    )
    assert to_shopping_events(found, KNOWN, "buy", "ms").times.tolist() == [1500000000000]
    with pytest.raises(DataError, match=r"^log:1: expected times in seconds, got 1500000000000"):
        to_shopping_events(found, KNOWN, "buy", "s")
