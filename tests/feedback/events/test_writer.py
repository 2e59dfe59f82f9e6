"""Events are durable when `append` returns, become parts once, and survive a killed writer."""

import errno
import os

import pytest

from shortlist.feedback.events import spool
from shortlist.feedback.events import writer as event_writer
from shortlist.feedback.events.writer import EventWriter, recover_events
from shortlist.feedback.inspection import inspect_log
from shortlist.feedback.join import join_feedback
from shortlist.feedback.manifest import read_manifest
from shortlist.feedback.reader import LogReader
from tests.feedback.logs import START, funnel, traces, write_log

NOW = START + 60_000


def event(request=1, item=3, kind="play", ts=START + 1000, **more):
    return {"request_id": request, "item_id": item, "event": kind, "event_ts_ms": ts, **more}


def rows_of(root):
    return sum(part.rows for part in read_manifest(root).of("feedback"))


def test_events_are_in_the_log_after_close_and_no_spool_is_left(tmp_path):
    with EventWriter(tmp_path, text_items=False) as writer:
        assert writer.append([event(), event(2)], NOW) == ()
        assert rows_of(tmp_path) == 0
    assert rows_of(tmp_path) == 2
    assert not list(tmp_path.glob(".events*"))


def test_many_appends_become_one_part(tmp_path):
    with EventWriter(tmp_path, text_items=False) as writer:
        for number in range(50):
            writer.append([event(number)], NOW)
    assert [part.rows for part in read_manifest(tmp_path).of("feedback")] == [50]


def test_rows_that_are_no_events_are_named_and_the_others_are_written(tmp_path):
    bad = [
        event(kind="surprise"),
        event("abc"),
        event(item=""),
        event(ts=-1),
        event(ts=NOW + 3_600_000),
    ]
    with EventWriter(tmp_path, text_items=True) as writer:
        rejected = writer.append([*bad, event(), event(item="x")], NOW)
    assert [(one.index, one.code) for one in rejected] == [
        (0, "unknown_events"),
        (1, "bad_ids"),
        (2, "bad_ids"),
        (3, "bad_times"),
        (4, "from_the_future"),
    ]
    assert all("expected" in one.detail for one in rejected)
    assert rows_of(tmp_path) == 2


def test_killed_writer_loses_no_acknowledged_event(tmp_path):
    killed = EventWriter(tmp_path, text_items=False)
    killed.append([event(), event(2)], NOW)
    os.write(killed._spool.handle, b'{"request_id": 3, "it')  # a line that was never acknowledged
    killed._open = False
    killed._stop.set()
    killed._thread.join()
    killed._spool.close()
    assert recover_events(tmp_path) == 2
    assert (rows_of(tmp_path), list(tmp_path.glob(".events*"))) == (2, [])


def test_spool_of_a_running_writer_is_not_touched(tmp_path):
    with EventWriter(tmp_path, text_items=False) as first:
        first.append([event()], NOW)
        with EventWriter(tmp_path, text_items=False, writer="1") as second:
            assert second.recovered == 0
        assert rows_of(tmp_path) == 0
    assert rows_of(tmp_path) == 1


def test_full_disk_is_an_error_and_leaves_no_part_of_a_row(tmp_path, monkeypatch):
    with EventWriter(tmp_path, text_items=False) as writer:
        writer.append([event()], NOW)

        def full(handle, data):
            os.write(handle, data[:5])
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(spool, "_write", full)
            with pytest.raises(OSError, match="No space"):
                writer.append([event(2)], NOW)
        writer.append([event(3)], NOW)
    assert rows_of(tmp_path) == 2


def test_rotation_that_fails_is_tried_again(tmp_path, monkeypatch):
    with EventWriter(tmp_path, text_items=False) as writer:
        writer.append([event()], NOW)
        with monkeypatch.context() as patched:
            patched.setattr(event_writer, "append_events", lambda *given, **more: 1 / 0)
            writer.rotate()
        assert writer.error.startswith("ZeroDivisionError")
        writer.append([event(2)], NOW)
        writer.rotate()
        assert writer.error == ""
    assert rows_of(tmp_path) == 2


def test_event_that_a_crash_wrote_twice_counts_once_in_the_labels(tmp_path):
    (trace,) = traces(funnel(20, 10, 4), 1)
    write_log(tmp_path, [trace])
    (record,) = LogReader(tmp_path).requests()
    served = record.item_id[record.position > 0].tolist()
    request = int(record.request_id[0])
    seen = [event(request, item, "impression") for item in served]
    for _ in range(2):  # the second time as after a crash between the part and the removal of the spool
        with EventWriter(tmp_path, text_items=False) as writer:
            writer.append([*seen, event(request, served[0])], NOW)
    report = join_feedback(tmp_path, watermark=START + 10_000_000_000)
    assert (report.positives, report.negatives) == (1, 3)
    assert report.counts["duplicate_events"] == 5
    assert inspect_log(tmp_path).events == 10


def test_spool_becomes_a_part_when_it_is_old_or_large(tmp_path):
    with EventWriter(tmp_path, text_items=False, rotate_events=3, rotate_seconds=0.05) as writer:
        writer.append([event(number) for number in range(4)], NOW)
        for _ in range(200):
            if rows_of(tmp_path):
                break
            writer._thread.join(0.02)
        assert rows_of(tmp_path) == 4


def test_ids_of_nineteen_digits_are_kept_exactly_as_numbers_and_as_text(tmp_path):
    largest = 2**63 - 1
    with EventWriter(tmp_path, text_items=False) as writer:
        assert writer.append([event(largest, largest), event(str(largest - 1), str(largest))], NOW) == ()
        assert [one.code for one in writer.append([event(largest + 1)], NOW)] == ["bad_ids"]
    (part,) = read_manifest(tmp_path).of("feedback")
    assert (part.min_id, part.max_id) == (largest - 1, largest)
