import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import shortlist
from shortlist.data.sources.tabular import read_tabular
from shortlist.errors import ConfigError, DataError

ROWS = {
    "uid": ["010", "10", "b"],
    "movie": [7, 8, 7],
    "at": [1700000000 + at for at in range(3)],
    "stars": [1.0, 2, 3],
}
NAMED = {"user": "uid", "item": "movie", "time": "at", "weight": "stars"}
EVENTS = [("010", 7, 1700000000000, 1.0), ("10", 8, 1700000001000, 2.0), ("b", 7, 1700000002000, 3.0)]
FRAMES = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas with categories and timestamps": lambda: pd.DataFrame(ROWS).assign(
        uid=pd.Categorical(ROWS["uid"]), at=pd.to_datetime(ROWS["at"], unit="s", utc=True)
    ),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars with categories": lambda: pl.DataFrame(ROWS).with_columns(pl.col("uid").cast(pl.Categorical)),
    "DuckDB": lambda: duckdb.from_arrow(pa.table(ROWS)),
    "pyarrow table": lambda: pa.table(ROWS),
    "pyarrow reader": lambda: pa.table(ROWS).to_reader(),
    "pyarrow batch": lambda: pa.RecordBatch.from_pydict(ROWS),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_events(kind, events_of):
    assert events_of(read_tabular(FRAMES[kind](), columns=NAMED)) == EVENTS


def test_a_frame_without_an_arrow_stream_is_converted_by_pyarrow(events_of):
    """As pandas before 2.2: it has only the protocol of data frames."""

    class Old(pd.DataFrame):
        __arrow_c_stream__ = property()  # an attribute error, as if there were none

    assert events_of(read_tabular(Old(ROWS), columns=NAMED)) == EVENTS


def test_numbers_and_times_are_not_copied():
    table = pa.table({"user": [1, 2], "item": [1, 2], "time": [1700000000000, 1700000000001]})
    raw = read_tabular(table)
    assert raw.times.ctypes.data == table["time"].chunk(0).buffers()[1].address


def test_items_and_users_may_be_frames():
    items = pl.DataFrame({"movie": [8, 7], "title": ["B", "A"], "category": [["x", "y"], ["x"]]})
    users = pd.DataFrame({"uid": ["b", "010"], "country": ["fr", "de"], "age": [1, 2]})
    data = shortlist.read(pd.DataFrame(ROWS), user="uid", item="movie", items=items, users=users)
    assert data.catalog.table.to_pylist() == [
        {"title": "A", "category": ["x"]},
        {"title": "B", "category": ["x", "y"]},
    ]
    assert data.user_table.to_pylist() == [
        {"country": "de", "age": 2},
        {"country": None, "age": None},
        {"country": "fr", "age": 1},
    ]
    assert (data.name, data.facts.path) == ("data", "pandas DataFrame")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"uid": [1, "a", None]},
            r"^pandas DataFrame: cannot be converted to Arrow \(.+\); give every column one type",
        ),
        (
            {"uid": [1.0, None, 2.0]},
            r"expected ids \(whole numbers or text\) as 'uid', got double; cast the column$",
        ),
        ({"stars": [1.0, None, 2.0]}, r"^pandas DataFrame:row 2: expected a number as 'stars', got nothing"),
        (
            {"at": ["a", "b", "c"]},
            r"^pandas DataFrame:row 1: expected a time \(a number or an ISO date\) as 'at', got 'a'; fix the row",
        ),
    ],
)
def test_a_bad_frame_is_refused_with_its_row(change, message):
    with pytest.raises(DataError, match=message):
        read_tabular(pd.DataFrame({**ROWS, **change}), columns=NAMED)


def test_bad_rows_of_a_frame_can_be_skipped(events_of):
    frame = pd.DataFrame({**ROWS, "stars": [1.0, None, 3.0]})
    raw = read_tabular(frame, columns=NAMED, bad_lines="skip")
    assert events_of(raw) == [EVENTS[0], EVENTS[2]]
    (reject,) = raw.rejects
    assert (reject.line, reject.reason) == ("row 2", "expected a number as 'stars', got nothing")


def test_only_tables_are_read_from_frames_and_several_files(put):
    path = put("ratings.dat", "1::10::5::978300760\n")
    for source in (pd.DataFrame(ROWS), [path, path]):
        with pytest.raises(
            ConfigError, match=r"^movielens: expected one file or folder, got .+; only tables"
        ):
            shortlist.read(source, "movielens")
