"""Live events from files: defined errors with file and line, the same events from every format."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.errors import DataError
from shortlist.pipeline.live.read import read_live_events
from shortlist.state import UserEvent

ROWS = [("a", "i20", 1_999_999_999_000, "e1"), ("new", "i21", 1_999_999_999_500, "e2")]
EVENTS = [UserEvent(*row) for row in ROWS]
HEADER = ("user", "item", "time", "event_id")


def write_csv(path, rows=ROWS, header=HEADER):
    path.write_text("\n".join(",".join(map(str, row)) for row in (header, *rows)) + "\n")
    return path


def test_formats_give_the_same_events(tmp_path):
    lines = [json.dumps(dict(zip(HEADER, row, strict=True))) for row in ROWS]
    (tmp_path / "e.jsonl").write_text("\n".join(lines) + "\n")
    columns = dict(zip(HEADER, map(list, zip(*ROWS, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "e.parquet")
    files = (write_csv(tmp_path / "e.csv"), tmp_path / "e.jsonl", tmp_path / "e.parquet")
    assert [read_live_events(file).events for file in files] == [EVENTS] * 3


def test_rows_without_an_id_are_one_event_where_user_item_and_time_are(tmp_path):
    rows = [("a", "i1", 1_999_999_999_000), ("a", "i1", 1_999_999_999_000), ("a", "i1", 1_999_999_999_001)]
    read = read_live_events(write_csv(tmp_path / "e.csv", rows, HEADER[:3]))
    keys = [one.event_id for one in read.events]
    assert keys[0] == keys[1] != keys[2]


def test_dates_and_seconds_are_times(tmp_path):
    dates = [("a", "i1", "2033-05-18T03:33:19Z")]
    read = read_live_events(write_csv(tmp_path / "e.csv", dates, HEADER[:3]))
    assert read.events[0].time_ms == 1_999_999_999_000
    seconds = [("a", "i1", 1_999_999_999)]
    assert (
        read_live_events(write_csv(tmp_path / "s.csv", seconds, HEADER[:3])).events[0].time_ms
        == 1_999_999_999_000
    )


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([], HEADER, "e.csv:2: expected at least one row of events"),
        ([("a", "i1")], ("user", "item"), "e.csv: expected a column 'time', found user, item"),
        ([("a", "i1", "5", "x"), ("a", "i1", "soon", "y")], HEADER, "e.csv:3: "),
        (
            [("a", "i1", "5", "x"), ("", "i1", "6", "y")],
            HEADER,
            "e.csv:3: expected an id as 'user', got an empty one",
        ),
        ([("a", "", "5", "x")], HEADER, "e.csv:2: expected an id as 'item', got an empty one"),
        ([("a", "i1", "5", "")], HEADER, "e.csv:2: expected an id as 'event_id', got an empty one"),
        ([("a", "i1", "5")], HEADER, "e.csv:2: "),
    ],
)
def test_bad_files_are_refused_with_file_and_line(tmp_path, rows, header, message):
    with pytest.raises(DataError) as caught:
        read_live_events(write_csv(tmp_path / "e.csv", rows, header))
    assert message in str(caught.value)


def test_events_know_their_lines(tmp_path):
    assert read_live_events(write_csv(tmp_path / "e.csv")).locate(1).endswith("e.csv:3")
