"""shortlist log: the sub-commands print and emit what the library returns."""

import json

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.feedback.manifest import MANIFEST
from tests.feedback.logs import funnel, traces, write_log
from tests.feedback.test_join import feedback_of


@pytest.fixture
def log(tmp_path):
    root = tmp_path / "log"
    write_log(root, traces(funnel(60, 40, 20, 12, 5), 6), step=600_000)
    return root


def invoke(*arguments):
    return CliRunner().invoke(app, ["log", *map(str, arguments)])


def answer(*arguments):
    done = invoke(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def events(log, tmp_path):
    columns, plays = feedback_of(log)
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table(columns), path)
    return path, int(plays.sum())


def test_inspect_emits_and_prints_the_summary(log):
    found = answer("inspect", log, "--check")
    assert (found["requests"], found["rows"], found["problems"]["counts"]) == (6, 360, {})
    assert [one["nominated"] for one in found["strata"]] == [0, 120, 120, 48, 42, 30]
    shown = invoke("inspect", log).stdout
    assert "6 requests, 360 candidates" in shown
    assert "pool > stage2 > stage3 > stage4 > stage5" in shown


def test_inspect_explains_a_damaged_manifest(log):
    with (log / MANIFEST).open("a") as handle:
        handle.write("{}\n")
    assert "1 lines of the manifest that are not parts" in invoke("inspect", log).stdout


def test_join_appends_events_and_makes_labels(log, events):
    path, plays = events
    found = answer("join", log, "--events", path, "--watermark", 1 << 41)
    assert found["appended"][0]["written"] == 30 + plays
    assert (found["join"]["labels"], found["join"]["positives"]) == (30, plays)
    assert (
        f"{plays} positive, {30 - plays} negative, 0 not known"
        in invoke("join", log, "--watermark", 1 << 41).stdout
    )


def test_export_writes_one_file_per_day(log, events, tmp_path):
    rule = answer("join", log, "--events", events[0], "--watermark", 1 << 41)["join"]["rule_version"]
    done = answer("export", log, tmp_path / "out", "--rule", rule)
    assert (done["rows"], done["files"]) == (360, ["all_stage/2023-11-14.feather"])
    table = pa.feather.read_table(tmp_path / "out" / done["files"][0])
    assert sum(table["realshow"].to_pylist()) == 30
    assert invoke("export", log, tmp_path / "out").exit_code == 2  # not without --force
    assert (
        "wrote 360 rows of 6 requests to 1 files" in invoke("export", log, tmp_path / "out", "--force").stdout
    )


def test_join_and_export_use_tables_of_items_and_users(log, events, tmp_path):
    items, users = tmp_path / "items.csv", tmp_path / "users.jsonl"
    items.write_text(
        "item_id,duration,author_id\n" + "".join(f"{one},2,{one + 100}\n" for one in range(1, 60))
    )
    users.write_text("".join(json.dumps({"user_id": str(one), "age": 20 + one}) + "\n" for one in range(5)))
    joined = answer("join", log, "--events", events[0], "--items", items, "--watermark", 1 << 41)["join"]
    assert joined["counts"].get("plays_without_duration", 0) <= 6  # item 0 has none
    out = tmp_path / "out"
    done = answer("export", log, out, "--rule", joined["rule_version"], "--items", items, "--users", users)
    rows = pa.feather.read_table(out / done["files"][0]).to_pylist()
    assert {row["author_id"] for row in rows if row["video_id"] == 7} == {107}
    assert {row["age"] - row["user_id"] for row in rows} == {20}
    played = [row for row in rows if row["playing_time"] and row["video_id"]]
    assert played
    assert all((row["effective_view"], row["long_view"]) == (1, 0) for row in played)


def test_join_uses_the_events_that_a_killed_server_left(log):
    row = {"request_id": 1, "item_id": 1, "event": 1, "event_ts_ms": 5, "value": 0, "ingest_ts_ms": 6}
    (log / ".events-events_w0-0.jsonl").write_text(json.dumps(row) + "\n")
    assert answer("inspect", log)["waiting_events"] == 1
    found = answer("join", log, "--watermark", 1 << 41)
    assert (found["recovered"], found["join"]["counts"]) == (1, {"never_logged": 1})
    assert not list(log.glob(".events-*"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "nowhere"), "expected the folder of a log"),
        (("join", ".", "--events", "events.xlsx"), "expected a file that ends in .parquet, .csv, .jsonl"),
        (("join", ".", "--events", "none.csv"), "expected a file of events, found none"),
        (("join", ".", "--positive", "stare"), "label rules: expected"),
        (("export", ".", "out", "--levels", "a,b"), "expected four whole numbers"),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_events_that_are_no_table_are_refused(log, tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text("no json\n")
    done = invoke("join", log, "--events", path)
    assert done.exit_code == 2
    assert "expected a table of events" in done.stderr
