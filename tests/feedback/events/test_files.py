"""Files of events are appended block by block, all rows or none; tables of features have one row per id."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from shortlist.errors import ConfigError, DataError
from shortlist.feedback.events.append import append_events
from shortlist.feedback.events.files import durations_of, read_events, read_features
from shortlist.feedback.manifest import read_manifest
from tests.feedback.logs import START

LATER = START + 10 * 86_400_000
COUNT = 500


def rows(count=COUNT):
    return pa.table(
        {
            "request_id": np.arange(count) // 5,
            "item_id": np.arange(count) % 7,
            "event": [("impression", "play")[one % 2] for one in range(count)],
            "event_ts_ms": START + np.arange(count) * 60_000,
            "value": np.arange(count) * 0.5,
        }
    )


def written(table, path):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=50)
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


def stored(root):
    tables = [pq.read_table(root / part.path) for part in read_manifest(root).of("feedback")]
    return pa.concat_tables(tables).sort_by("event_ts_ms") if tables else None


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_events_of_many_blocks_are_those_of_one(tmp_path, ending):
    path = written(rows(), tmp_path / f"events.{ending}")
    blocks = list(read_events(path, text_items=False, block_bytes=2000 if ending != "parquet" else 64))
    assert len(blocks) > 5
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for root, some in ((whole, rows()), (parts, iter(blocks))):
        root.mkdir()
        assert append_events(root, some, LATER).written == COUNT
    assert stored(whole).equals(stored(parts))


def test_one_block_is_on_the_disk_before_the_next_is_read(tmp_path):
    seen = []

    def blocks():
        for number in range(3):
            seen.append(len(list(tmp_path.rglob("*.parquet"))))
            yield rows(20).slice(number * 5, 5)

    append_events(tmp_path, blocks(), LATER)
    assert seen == [0, 1, 2]


def test_file_with_an_error_in_a_later_block_appends_nothing(tmp_path):
    path = written(rows(), tmp_path / "events.jsonl")
    path.write_text(path.read_text() + "{not json\n")
    with pytest.raises(DataError, match=r"events\.jsonl: expected a table of events"):
        append_events(tmp_path / "log", read_events(path, block_bytes=2000), LATER)
    assert not list((tmp_path / "log").rglob("*.parquet"))
    assert not read_manifest(tmp_path / "log").parts


def test_wrong_values_in_a_later_block_are_counted_with_their_row(tmp_path):
    path = written(rows(), tmp_path / "events.csv")
    bad = f"x,1,play,{START},1\n1,1,stare,{START},1\n1,1,play,{START},long\n1,1,1,{START},\n"
    path.write_text(path.read_text() + bad)
    done = append_events(tmp_path / "log", read_events(path, False, block_bytes=2000), LATER)
    assert done.problems.counts == {"bad_ids": 1, "unknown_events": 1, "bad_values": 1}
    assert done.problems.examples["bad_ids"][0].startswith(f"row {COUNT + 1}: ")
    assert done.written == COUNT + 1
    nothing = stored(tmp_path / "log").filter(pa.compute.field("value") == 0)
    assert sorted(nothing["event"].to_pylist()) == [0, 1]  # row 1 has the value 0, the last one has none


def test_text_ids_keep_their_zeros_and_numbers_become_numbers(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(f"request_id,item_id,event,event_ts_ms\n1,007,play,{START}\n")
    found = {text: next(iter(read_events(path, text)))["item_id"].to_pylist() for text in (True, False, None)}
    assert found == {True: ["007"], False: [7], None: ["007"]}


def test_features_have_one_row_per_id(tmp_path):
    path = written(pa.table({"item_id": ["a", "a"], "duration": [1, 2]}), tmp_path / "items.csv")
    with pytest.raises(DataError, match="expected one row per item_id"):
        read_features(path, "item_id")
    with pytest.raises(DataError, match="expected a column user_id, got item_id, duration"):
        read_features(path, "user_id")
    with pytest.raises(ConfigError, match="found none"):
        read_features(tmp_path / "none.csv", "item_id")


def test_durations_are_by_ids_of_the_log(tmp_path):
    path = written(
        pa.table({"item_id": [1, 2, 3], "duration": [10.0, 0.0, None]}), tmp_path / "items.parquet"
    )
    assert durations_of(read_features(path, "item_id", True), path) == {"1": 10.0}
    assert durations_of(read_features(path, "item_id", False), path) == {1: 10.0}
    with pytest.raises(DataError, match="expected a column duration"):
        durations_of(read_features(path, "item_id").select(["item_id"]), path)
    text = written(pa.table({"item_id": [1], "duration": ["long"]}), tmp_path / "text.csv")
    with pytest.raises(DataError, match="expected numbers as duration"):
        durations_of(read_features(text, "item_id"), text)
