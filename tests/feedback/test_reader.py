"""The reader: the manifest is all it trusts, and whatever it leaves out is counted and explained."""

import json
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data import Vocabulary
from shortlist.errors import DataError
from shortlist.feedback.inspection import inspect_log
from shortlist.feedback.manifest import MANIFEST, append_parts, read_manifest, repair, sha256_of
from shortlist.feedback.reader import LogReader, adds_up
from shortlist.feedback.record import concat
from shortlist.feedback.write.from_trace import from_trace
from shortlist.feedback.write.sampling import EVERYTHING, Sampling, sampled
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from shortlist.pipeline import run
from tests.feedback.logs import START, funnel, meta_of, traces, write_log
from tests.feedback.write.test_sampling import request
from tests.pipeline.strategies import pipelines, requests


@pytest.fixture
def log(tmp_path):
    """Six requests in six parts."""
    write_log(tmp_path, traces(funnel(60, 20, 5), 6), settings=LogSettings(rotate_bytes=1))
    return tmp_path


def read(root, **options):
    reader = LogReader(root, **options)
    records = list(reader.requests())
    return (sum(map(len, records)), reader.problems)


def change_line(root, number, **changes):
    lines = (root / MANIFEST).read_text().splitlines()
    lines[number] = json.dumps(json.loads(lines[number]) | changes)
    (root / MANIFEST).write_text("\n".join(lines) + "\n")


def test_file_that_is_not_in_the_manifest_is_not_read(log):
    lines = (log / MANIFEST).read_text().splitlines()
    (log / MANIFEST).write_text("\n".join(lines[:-2]) + "\n")
    assert read(log) == (5, read(log)[1])
    assert not read(log)[1].counts


def test_empty_log_has_no_requests(tmp_path):
    assert read(tmp_path)[0] == 0


def test_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(DataError, match="expected the folder of a log"):
        LogReader(tmp_path / "none")


@pytest.mark.parametrize(
    "tail",
    [
        b'{"table": "requests", "pa',
        b'{"table"\n',
        b"[1]\n",
        b'{"path": 3}\n',
        b'{"path": "../a"}\n',
        b'{"path": "a", "rows": "b"}\n',
        b"\xff\xfe\n",
    ],
)
def test_damaged_line_is_counted_and_the_others_are_used(log, tail):
    with (log / MANIFEST).open("ab") as handle:
        handle.write(tail)
    count, problems = read(log)
    assert count == 6
    assert problems.counts == {"bad_manifest_lines": 1}
    assert f"{MANIFEST}:13: expected" in problems.examples["bad_manifest_lines"][0]


def test_repair_cuts_off_an_unfinished_line_only(log):
    assert repair(log) == 0
    whole = (log / MANIFEST).read_bytes()
    (log / MANIFEST).write_bytes(whole[:-5])
    last = len(whole.splitlines(keepends=True)[-1])
    assert repair(log) == last - 5
    assert (log / MANIFEST).read_bytes() == whole[:-last]


def test_append_after_a_torn_line_keeps_both_parts(log):
    with (log / MANIFEST).open("ab") as handle:
        handle.write(b'{"table": "requests", "pa')
    part = read_manifest(log).parts[0]
    append_parts(log, [replace(part, path="elsewhere")])
    found = read_manifest(log)
    assert len(found.parts) == 13
    assert not found.bad_lines


def test_unknown_schema_version_is_counted_and_explained(log):
    change_line(log, 2, schema_version=99)
    count, problems = read(log)
    assert count == 5
    assert problems.counts == {"unknown_schema": 1, "incomplete_parts": 1}
    assert "expected schema version 1, got 99" in problems.examples["unknown_schema"][0]


def test_missing_file_is_counted(log):
    (log / read_manifest(log).of("candidates")[0].path).unlink()
    count, problems = read(log)
    assert count == 5
    assert problems.counts == {"bad_parts": 1, "incomplete_parts": 1}


def test_damaged_file_is_found_by_its_hash_and_otherwise_when_it_is_read(log):
    path = log / read_manifest(log).of("requests")[0].path
    path.write_bytes(path.read_bytes()[:-20])
    for check in (True, False):
        count, problems = read(log, check=check)
        assert count == 5
        assert problems.counts["bad_parts"] == 1


def rewrite(root, table, change):
    """Replace the first part of a table and its hash in the manifest."""
    part = read_manifest(root).of(table)[0]
    pq.write_table(change(pq.read_table(root / part.path)), root / part.path)
    number = [p.path for p in read_manifest(root).parts].index(part.path)
    change_line(root, number, sha256=sha256_of(root / part.path))


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.filter(pa.compute.not_equal(table["S"], 3)),
        lambda table: table.filter(pa.compute.not_equal(table["S"], 1)),
        lambda table: table.slice(0, len(table) - 1),
    ],
    ids=["served stage", "complete request", "one row"],
)
def test_request_without_the_rows_of_a_stage_is_left_out_and_counted(log, change):
    rewrite(log, "candidates", change)
    rows = len(pq.read_table(log / read_manifest(log).of("candidates")[0].path))
    rewrite(log, "requests", lambda table: with_column(table, "n_logged", pa.array([rows], pa.int32())))
    count, problems = read(log, check=True)
    assert count == 5
    assert problems.counts == {"missing_stages": 1}
    assert "n_out [60, 20, 5]" in problems.examples["missing_stages"][0]


def test_candidates_of_other_requests_are_a_bad_part(log):
    rewrite(log, "candidates", lambda table: table.slice(0, 10))
    count, problems = read(log)
    assert count == 5
    assert problems.counts == {"bad_parts": 1}


def test_column_of_a_stage_that_is_missing_reads_as_not_scored(log):
    rewrite(log, "candidates", lambda table: table.drop_columns(["score_2", "rank_2"]))
    record = next(LogReader(log).requests())
    assert np.isnan(record.scores[:, 1]).all()
    assert (record.ranks[:, 1] == 0).all()
    assert not np.isnan(record.scores[:, 0]).any()


def with_column(table, name, values):
    return table.set_column(table.column_names.index(name), name, values)


def test_request_that_was_logged_twice_is_returned_once(tmp_path):
    for _ in range(2):
        write_log(tmp_path, traces(funnel(60, 20, 5), 3))
    count, problems = read(tmp_path)
    assert count == 3
    assert problems.counts == {"duplicate_requests": 3}


def test_reader_returns_the_requests_of_a_time_range(log):
    assert read(log, since=START + 1000, until=START + 3000)[0] == 2


def test_row_groups_bound_what_is_in_memory(tmp_path):
    write_log(tmp_path, traces(funnel(60, 20, 5), 10, 4), settings=LogSettings(row_group=300, queue=100))
    sizes = [record.n_candidates for record in LogReader(tmp_path).requests()]
    assert len(read_manifest(tmp_path).of("requests")) == 1
    assert sum(sizes) == 2400
    assert max(sizes) <= 480  # the records that reach the limit are whole


def test_inspection_sums_up_the_log(tmp_path):
    write_log(tmp_path, traces(funnel(600, 90, 30, 5), 4), Sampling())
    found = inspect_log(tmp_path, check=True)
    assert (found.requests, found.rows, found.complete_requests) == (4, 4 * (40 + 60 + 25 + 5), 0)
    assert [(one.stage, one.nominated, one.logged) for one in found.strata] == [
        *((0, 0, 0), (1, 2040, 160), (2, 240, 240), (3, 100, 100), (4, 20, 20))
    ]
    assert [one.weight for one in found.strata] == pytest.approx([0, 2040, 240, 100, 20], rel=1e-5)
    assert found.funnels == {"pool > stage2 > stage3 > stage4": 4}
    assert found.since_ms == START
    assert found.bytes_per_row > 0
    assert not found.explained


def test_inspection_explains_what_it_left_out(log):
    change_line(log, 2, schema_version=99)
    assert inspect_log(log).explained == (
        "1 parts of which only requests or only candidates can be used; they are not used",
        "1 parts of a schema version that this program does not read; they are not used",
    )


def test_unknown_inclusion_probabilities_cannot_be_checked():
    record = request([0, 5, 3])
    assert adds_up(replace(record, incl_prob=np.full(8, np.nan))).all()
    assert not adds_up(replace(record, incl_prob=np.full(8, 0.5))).any()
    assert not adds_up(replace(record, incl_prob=np.ones(8), stage=np.full(8, 7, np.int8))).any()


@settings(max_examples=40, deadline=None)
@given(pipelines(), st.lists(requests(), min_size=1, max_size=3), st.booleans())
def test_traces_of_random_pipelines_come_back_as_they_were(pipeline, queries, together):
    """Spec 23, with filters, selectors, skipped stages, broken scores, ties and requests without candidates."""
    runs = [run(pipeline, query).trace for query in queries]
    firsts = np.cumsum([0, *map(len, queries)])
    metas = [meta_of(trace, first=int(first)) for trace, first in zip(runs, firsts, strict=False)]
    with TemporaryDirectory() as root:
        one_part = LogSettings() if together else LogSettings(rotate_bytes=1)
        with FullStageLogger(root, Vocabulary.of(range(40)), settings=one_part, sampling=EVERYTHING) as log:
            assert all(log.offer(*one) for one in zip(runs, metas, strict=True))
        reader = LogReader(root, check=True)
        found = concat(list(reader.requests()))
    made = [sampled(from_trace(*one), EVERYTHING) for one in zip(runs, metas, strict=True)]
    expected = concat(made)
    assert not reader.problems.counts, reader.problems.examples
    assert np.array_equal(found.scores, expected.scores, equal_nan=True)
    for name in (
        "request_id",
        "offsets",
        "item_id",
        "stage",
        "ranks",
        "position",
        "n_in",
        "n_out",
        "policy_version",
    ):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
