"""Times of text: every kind of table gives the times of the same text in a CSV file."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shortlist.data.sources.tabular import read_tabular
from shortlist.errors import DataError

ISO = ["2024-01-02 03:04:05", "2024-01-02 03:04:06", "2024-03-01 00:00:00"]


@pytest.fixture
def tables(put, tmp_path):
    """The same events with these times in every kind of table that holds text."""

    def make(times):
        columns = {"user": ["a", "b", "c"], "item": [1, 2, 3], "time": times}
        pq.write_table(pa.table(columns), tmp_path / "log.parquet")
        rows = zip(*columns.values(), strict=True)
        objects = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        return {
            "csv": put("log.csv", pd.DataFrame(columns).to_csv(index=False)),
            "parquet": tmp_path / "log.parquet",
            "frame": pd.DataFrame(columns),
            "categories": pd.DataFrame(columns).astype({"time": "category"}),
            "jsonl": put("log.jsonl", "\n".join(objects) + "\n"),
        }

    return make


@pytest.mark.parametrize(
    ("times", "time_format"),
    [
        (ISO, ""),
        ([f"{text[:10]}T{text[11:]}Z" for text in ISO], ""),
        ([f"{text}+02:00" for text in ISO], ""),
        ([text[:10] for text in ISO], ""),
        (["03/01/2024", "04/01/2024", "28/02/2024"], "%d/%m/%Y"),
    ],
)
def test_every_table_reads_times_of_text_like_csv(tables, times, time_format):
    made = tables(times)
    expected = read_tabular(made["csv"], time_format=time_format).times.tolist()
    for kind, source in made.items():
        assert read_tabular(source, time_format=time_format).times.tolist() == expected, kind


def test_numbers_of_text_are_times(tables):
    made = tables(["1700000000", "1700000001", "1700000002"])
    for kind in ("parquet", "frame", "categories"):
        assert read_tabular(made[kind]).times[0] == 1_700_000_000_000, kind


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            ["03/01/2024"] * 3,
            r":row 1: expected a time .+ as 'time', got '03/01/2024'; use --option time_form",
        ),
        (
            [ISO[0], "soon", "later"],
            r":row 2: expected a time .+ got 'soon'; fix the row, or skip such rows with",
        ),
        ([ISO[0], None, ISO[1]], r":row 2: expected a time .+ got ''; fix the row"),
        ([*ISO[:2], "1700000000"], r":row 3: expected a time written like '2024-.+', got '1700000000'; fix"),
    ],
)
def test_a_text_that_is_no_time_is_refused_with_its_row_or_skipped(tables, times, message):
    made = tables(times)
    good = sum(text in ISO for text in times)
    for kind in ("parquet", "frame", "categories"):
        with pytest.raises(DataError, match=message):
            read_tabular(made[kind])
        raw = read_tabular(made[kind], bad_lines="skip")
        assert (len(raw), len(raw.rejects)) == (good, 3 - good), kind
