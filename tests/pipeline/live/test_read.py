"""Live events from files: defined errors with file and line, the same events from every format."""

import io
import json
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.errors import ConfigError, DataError
from shortlist.pipeline.live.read import read_live_events
from shortlist.state import UserEvent
from shortlist.state.events.event import event_key

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


def test_long_ids_without_an_id_of_the_event_are_applied(tmp_path):
    rows = [("u" * 500, "i1" + " " * 100, 1_999_999_999_000 + at) for at in range(2)]
    (one, other) = read_live_events(write_csv(tmp_path / "e.csv", rows, HEADER[:3])).events
    assert one.event_id != other.event_id
    assert event_key(one.event_id) is not None


def test_dates_and_seconds_are_times(tmp_path):
    dates = [("a", "i1", "2033-05-18T03:33:19Z")]
    read = read_live_events(write_csv(tmp_path / "e.csv", dates, HEADER[:3]))
    assert read.events[0].time_ms == 1_999_999_999_000
    seconds = [("a", "i1", 1_999_999_999)]
    assert (
        read_live_events(write_csv(tmp_path / "s.csv", seconds, HEADER[:3])).events[0].time_ms
        == 1_999_999_999_000
    )


def stream(text):
    """Standard input."""
    found = io.BytesIO(text.encode())
    found.name = "<stdin>"
    return found


def delimited(mark, rows=ROWS, header=HEADER):
    return "\n".join(mark.join(map(str, row)) for row in (header, *rows)) + "\n"


@pytest.mark.parametrize("mark", [",", "\t", ";", "|", "::", " "])
def test_delimiter_of_a_stream_or_of_any_name_is_detected(tmp_path, mark):
    assert read_live_events(stream(delimited(mark))).events == EVENTS
    for name in ("e.txt", "e.csv", "e.tsv", "events"):
        (tmp_path / name).write_text(delimited(mark))
        assert read_live_events(tmp_path / name).events == EVENTS


def test_stream_of_json_lines_and_of_parquet(tmp_path):
    lines = [json.dumps(dict(zip(HEADER, row, strict=True))) for row in ROWS]
    assert read_live_events(stream("\n".join(lines))).events == EVENTS
    columns = dict(zip(HEADER, map(list, zip(*ROWS, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "e.parquet")
    with (tmp_path / "e.parquet").open("rb") as file:
        assert read_live_events(file).events == EVENTS


GOOD = "a,i20,1999999999000\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "<stdin>: is empty"),
        ("user\na\n", "<stdin>: expected a file format of csv, jsonl, parquet, tsv, got ''"),
        ("user#item#time\na#i1#5\n", "<stdin>: expected a file format of csv, jsonl, parquet, tsv, got ''"),
        ("user#item#event id,time\na#i1#5,6\n", "expected a column 'user', found user#item#event id, time"),
        (
            "who,item,time\n" + GOOD,
            "expected a column 'user', found who, item, time; name the columns user, item",
        ),
        ("user,user,item,time\na," + GOOD, "expected a column 'user', found it twice; name the columns"),
        ("user,item,time\n" + GOOD + "a,i1,soon\n", "<stdin>:3: expected a time (a number or an ISO date)"),
        ("user,item,time\na,i1,18.05.2033\n", "<stdin>:2: expected a time"),
        ("user,item,time\n" + GOOD + "a,i1\n", "<stdin>:3: expected 3 fields"),
        ("user,item,time\n" + GOOD + '"a,i1,5\n', "<stdin>:3: expected closed quotes"),
        (
            "user,item,time\n" + GOOD * 2 + "a,i1,5\n",
            "<stdin>:4: expected a time in milliseconds as on the other",
        ),
        ("user,item,time\na,i\x01,5\n", "<stdin>:2: expected an id without control characters"),
        ('{"user": "a", "item": "i1", "time": true}', "<stdin>:1: expected a time"),
        ('{"user": "a", "item": "i1"}', "<stdin>: expected a column 'time', found user, item"),
        ('{"user": "a", "item": "i1", "time": "4 May"}', "<stdin>:1: expected a time"),
    ],
)
def test_errors_name_no_options_of_other_commands(text, message):
    with pytest.raises((DataError, ConfigError)) as caught:
        read_live_events(stream(text))
    assert message in str(caught.value)
    assert "--" not in str(caught.value)
    assert "map " not in str(caught.value)


@pytest.mark.parametrize("raw", [GOOD.encode() + b"caf\xe9,i1,5\n", "a,i1,5\n".encode("utf-16-le")])
def test_text_that_is_not_utf8_is_refused_without_an_option(tmp_path, raw):
    (tmp_path / "e.csv").write_bytes(b"user,item,time\n" + raw if raw.startswith(b"a,") else raw)
    with pytest.raises(DataError, match="save the file as UTF-8") as caught:
        read_live_events(tmp_path / "e.csv")
    assert "--" not in str(caught.value)


def test_parquet_time_of_a_wrong_type_is_refused_without_an_option(tmp_path):
    pq.write_table(pa.table({"user": ["a"], "item": ["i1"], "time": [True]}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match="expected a time as 'time', got bool; write the column in this form"):
        read_live_events(tmp_path / "e.parquet")


@pytest.mark.parametrize("far", ["1e300", "-1e300", "9.3e18", "1e19"])
@pytest.mark.parametrize("others", [[], ["1999999999"], ["1999999999", "1999999998.5"]])
def test_number_that_is_no_time_leaves_the_others_as_they_are(far, others):
    rows = [("a", "i1", time) for time in (*others, far)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = read_live_events(stream(delimited(",", rows, HEADER[:3])))
    *times, last = [event.time_ms for event in read.events]
    assert times == [round(float(one) * 1000) for one in others]
    assert last == int(float(far))
    assert read.locate([len(others)]) == [f"<stdin>:{len(others) + 2}"]


def test_line_of_another_unit_is_named_behind_one_that_is_no_time():
    rows = [("a", "i1", time) for time in ("1e300", "1999999999000", "1999999999001", "5")]
    with pytest.raises(DataError, match="<stdin>:5: expected a time in milliseconds"):
        read_live_events(stream(delimited(",", rows, HEADER[:3])))


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
    read = read_live_events(write_csv(tmp_path / "e.csv"))
    assert [place[-7:] for place in read.locate([1, 0])] == ["e.csv:3", "e.csv:2"]
    assert read.locate([]) == []
