"""The join of a log on disk: equal bytes, counts of what was not used, memory of one part."""

import numpy as np
import pyarrow as pa
import pytest

from shortlist.errors import DataError
from shortlist.feedback import join
from shortlist.feedback.events.append import append_events
from shortlist.feedback.id_index import IdIndex
from shortlist.feedback.join import join_feedback, labelled, labels_folder
from shortlist.feedback.manifest import read_manifest
from shortlist.feedback.outcomes import DAY_MS, LabelRules
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.feedback.write.writer import LogSettings
from tests.feedback.logs import START, funnel, traces, write_log

LATER = START + 10 * DAY_MS


def feedback_of(root, seed=0):
    """Random events for the served candidates of a log."""
    generator = np.random.default_rng(seed)
    record = concat(list(LogReader(root).requests()))
    served = np.flatnonzero(record.position > 0)
    ts = record.ts_ms[record.request[served]]
    ids = record.request_id[record.request[served]]
    plays = generator.random(len(served)) < 0.4
    return {
        "request_id": np.concatenate([ids, ids[plays]]),
        "item_id": np.concatenate([record.item_id[served], record.item_id[served][plays]]),
        "event": np.repeat(np.array([0, 1], np.int8), [len(served), plays.sum()]),
        "event_ts_ms": np.concatenate([ts, ts[plays] + 60_000]),
        "value": np.ones(len(served) + plays.sum()),
    }, plays


@pytest.fixture
def log(tmp_path):
    write_log(
        tmp_path, traces(funnel(60, 20, 5), 12, 2), step=600_000, settings=LogSettings(rotate_bytes=60_000)
    )
    return tmp_path


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_labels_that_are_built_twice_have_equal_bytes(log):
    """Spec 23; the order in which events arrive changes nothing either."""
    columns, _ = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=LATER)
    rules = LabelRules()
    join_feedback(log, rules, LATER)
    first = contents(labels_folder(log, rules.version))
    assert len(first) > 2
    join_feedback(log, rules, LATER)
    assert contents(labels_folder(log, rules.version)) == first
    append_events(log, {name: values[::-1] for name, values in columns.items()}, ingest_ts_ms=LATER)
    again = join_feedback(log, rules, LATER)
    assert again.counts["duplicate_events"] == len(columns["event"])
    assert contents(labels_folder(log, rules.version)) == first


def test_labels_come_back_with_the_requests(log):
    columns, plays = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=LATER)
    report = join_feedback(log, watermark=LATER)
    record = concat(list(labelled(LogReader(log), report.rule_version)))
    served = record.position > 0
    assert np.array_equal(record.y[served], plays.astype(np.int8))
    assert (record.y[~served] == -1).all()
    assert (record.shown[served] == 1).all()
    assert (report.requests, report.labels, report.positives) == (24, 120, int(plays.sum()))
    assert not report.explained


def test_watermark_of_the_log_closes_old_labels_only(log):
    columns, _ = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=LATER)
    report = join_feedback(log)
    ends = START + 23 * 600_000
    assert report.watermark_ms in (ends - 600_000, ends - 600_000 + 60_000)
    assert report.open > 0
    record = concat(list(labelled(LogReader(log), report.rule_version)))
    closed = (record.ts_ms + 1_800_000 <= report.watermark_ms)[record.request]
    assert ((record.y >= 0) == (closed & (record.position > 0))).all()


def test_events_that_are_not_used_are_counted_and_explained(log):
    columns, _ = feedback_of(log)
    strange = {
        "request_id": np.array([5, columns["request_id"][0], columns["request_id"][0], (1 << 62)]),
        "item_id": np.array([1, 59_000, columns["item_id"][0], 3]),
        "event": np.array([1, 1, 1, 1], np.int8),
        "event_ts_ms": np.array([START, START, START - 1, START]),
        "value": np.zeros(4),
    }
    both = {name: np.concatenate([columns[name], strange[name]]) for name in columns}
    append_events(log, both, ingest_ts_ms=LATER)
    report = join_feedback(log, watermark=LATER)
    assert report.counts == {"item_not_served": 1, "before_the_request": 1, "never_logged": 2}
    assert (
        "2 events of requests that are not in the log, or are left out of it; they are not used"
        in report.explained
    )


def test_late_events_correct_labels_in_the_next_run(log):
    columns, plays = feedback_of(log)
    shown = {name: values[: len(plays)] for name, values in columns.items()}
    append_events(log, shown, ingest_ts_ms=LATER)
    assert join_feedback(log, watermark=LATER).positives == 0
    done = append_events(
        log, {name: values[len(plays) :] for name, values in columns.items()}, ingest_ts_ms=LATER
    )
    report = join_feedback(log, watermark=LATER)
    assert report.positives == plays.sum()
    assert (
        report.counts["corrections"] == report.counts["labels_changed_by_corrections"] == done.corrections > 0
    )


def test_labels_of_a_shorter_log_are_refused(log):
    report = join_feedback(log, watermark=LATER)
    write_log(log, traces(funnel(60, 20, 5), 1), step=1)
    with pytest.raises(DataError, match="shortlist log join"):
        list(labelled(LogReader(log), 12345))
    write_log(log, traces(funnel(60, 20, 5), 30, 2), step=600_000)
    with pytest.raises(DataError, match="the log has grown"):
        list(labelled(LogReader(log), report.rule_version))


def test_join_reads_only_events_of_the_requests_in_hand(log, monkeypatch):
    """Memory: the events of one row group of requests, not of the log."""
    columns, _ = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=LATER)
    sizes = []
    real = join.labels_of

    def spied(record, found, *rest):
        sizes.append((len(record), sum(len(table) for table, _ in found)))
        return real(record, found, *rest)

    monkeypatch.setattr(join, "labels_of", spied)
    join_feedback(log, watermark=LATER)
    assert len(sizes) > 5
    assert all(events <= 10 * requests for requests, events in sizes)


def test_index_reads_row_groups_that_overlap_only(log):
    columns, _ = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=LATER)
    index = IdIndex(log, read_manifest(log).of("feedback"), ("request_id", "event"))
    wanted = int(columns["request_id"][0])
    found = pa.concat_tables(index.between(wanted, wanted))
    assert set(found["request_id"].to_pylist()) == {wanted}
    assert len(index._groups) == 1
    assert index.between(0, 5) == []


def test_damaged_events_are_counted_and_the_others_are_used(log):
    columns, plays = feedback_of(log)
    append_events(log, columns, ingest_ts_ms=LATER)
    part = read_manifest(log).of("feedback")[0]
    path = log / part.path
    path.write_bytes(path.read_bytes()[:-9])
    report = join_feedback(log, watermark=LATER)
    assert report.problems.counts == {"bad_parts": 1}
    assert 0 < report.positives < plays.sum()
