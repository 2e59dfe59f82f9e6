from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.data.tables.files import File
from shortlist.data.tables.parquet import parquet_names, read_parquet
from shortlist.errors import DataError


@pytest.fixture
def write(tmp_path):
    """Write a table of these columns and return its path."""

    def put(**columns):
        pq.write_table(pa.table(columns), tmp_path / "log.parquet")
        return tmp_path / "log.parquet"

    return put


def test_only_requested_columns_are_read_and_rows_count_from_one(write):
    path = write(u=["b", "a", "b"], t=[3, 1, 2], more=[0, 0, 0])
    found = read_parquet(File(path), {"t": "time", "u": "id"})
    assert found.table.to_pydict() == {"t": [3, 1, 2], "u": ["b", "a", "b"]}
    assert pa.types.is_dictionary(found.table["u"].type)
    assert (found.locate(0), found.locate(2)) == (f"{path}:row 1", f"{path}:row 3")


def test_column_names_keep_the_order_of_the_file(write):
    assert parquet_names(File(write(u=[1], t=[2]))) == ("u", "t")


def test_ids_may_be_integers_text_or_dictionaries(write):
    path = write(n=[7, 5, 7], s=["x", "y", "x"], d=pa.array(["x", "y", "x"]).dictionary_encode())
    found = read_parquet(File(path), {"n": "id", "s": "id", "d": "id"})
    assert found.table.to_pydict() == {"n": [7, 5, 7], "s": ["x", "y", "x"], "d": ["x", "y", "x"]}


def test_a_missing_column_is_reported_with_the_existing_ones(write):
    with pytest.raises(
        DataError, match=r"log.parquet: expected a column 'time', found u, t; map another column$"
    ):
        read_parquet(File(write(u=[1], t=[2])), {"u": "id", "time": "time"})


@pytest.mark.parametrize("gap", [None, float("nan"), float("inf")])
def test_the_first_missing_number_is_reported(write, gap):
    path = write(n=pa.array([1.0, gap, gap]))
    with pytest.raises(
        DataError,
        match=r"log.parquet:row 2: expected a number as 'n', got nothing; fill it in, or skip such rows with",
    ):
        read_parquet(File(path), {"n": "number"})


def test_a_timestamp_is_a_time_and_no_number_and_a_list_is_neither(write):
    path = write(t=[datetime(2020, 1, 1, tzinfo=UTC)], s=["5"], l=[[5]])
    assert len(read_parquet(File(path), {"t": "time"})) == 1
    for name, kind in (("t", "number"), ("s", "number"), ("l", "time")):
        with pytest.raises(
            DataError, match=rf"log.parquet: expected a {kind} as '{name}', got .+; map another column$"
        ):
            read_parquet(File(path), {name: kind})


def test_an_empty_or_truncated_file_is_refused(write):
    path = write(u=pa.array([], pa.int64()))
    with pytest.raises(DataError, match=r"log.parquet:row 1: expected at least one row of events, got none"):
        read_parquet(File(path), {"u": "id"})
    path.write_bytes(path.read_bytes()[:-1])
    for read in (parquet_names, lambda file: read_parquet(file, {"u": "id"})):
        with pytest.raises(
            DataError, match=r"log.parquet: is not a complete Parquet file \(.+\); download it again$"
        ):
            read(File(path))
