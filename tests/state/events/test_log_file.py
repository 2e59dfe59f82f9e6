"""The files of an event log: written in blocks, cut where a killed process stopped, erased when a user is forgotten."""

import os

import numpy as np
import pytest

from shortlist.errors import ArtifactError
from shortlist.state.events import log_file
from shortlist.state.events.event import user_digest
from shortlist.state.events.log import EventLog

from .test_log import add, keys

FIRST = [("a", 0, 5, 1), ("b", 1, 5, 2**64 - 1)]
SECOND = [("a", 2, 4, 3), ("ü", 0, 9, 4)]
THIRD = [("b", 1, 7, 5)]


def written(folder, *batches):
    with EventLog(folder) as log:
        for batch in batches:
            add(log, batch)


def contents(log):
    own = log.owner.values >= 0
    columns = [one.values[own].tolist() for one in (log.owner, log.item, log.time, log.id)]
    users, items, times, ids = columns
    rows = zip(
        [log.users[user] for user in users], [log.items[item] for item in items], times, ids, strict=True
    )
    return sorted(rows, key=str)


def read(folder):
    with EventLog(folder) as log:
        return contents(log)


def test_events_are_there_again(tmp_path):
    written(tmp_path, FIRST, SECOND)
    written(tmp_path, THIRD)
    assert read(tmp_path) == sorted([*FIRST, *SECOND, *THIRD], key=str)
    with EventLog(tmp_path) as log:
        assert keys(log, "a") == [(4, 3), (5, 1)]
        assert not log.is_new(log.user_numbers(["ü"]), np.array([4], np.uint64)).any()


def test_a_block_that_a_killed_process_left_unfinished_is_cut_off(tmp_path):
    """At every byte of the last block."""
    whole = tmp_path / "whole"
    written(whole, FIRST, SECOND)
    data = (whole / "events-00000000.log").read_bytes()
    written(tmp_path / "first", FIRST)
    start = (tmp_path / "first" / "events-00000000.log").stat().st_size
    for stop in range(start, len(data)):
        folder = tmp_path / str(stop)
        folder.mkdir()
        (folder / "events-00000000.log").write_bytes(data[:stop])
        with EventLog(folder) as log:
            assert contents(log) == sorted(FIRST, key=str)
            assert log.file.cut_bytes == stop - start
            add(log, THIRD)
        assert read(folder) == sorted([*FIRST, *THIRD], key=str)


def test_unfinished_block_whose_ids_hold_the_mark_of_a_block_is_cut_off(tmp_path):
    written(tmp_path, FIRST, [("SLE1 SLE1", 0, 9, 4)])
    path = tmp_path / "events-00000000.log"
    path.write_bytes(path.read_bytes()[:-1])
    assert read(tmp_path) == sorted(FIRST, key=str)


def test_zeros_at_the_end_after_a_power_failure_are_cut_off(tmp_path):
    written(tmp_path, FIRST)
    with (tmp_path / "events-00000000.log").open("ab") as file:
        file.write(bytes(100))
    assert read(tmp_path) == sorted(FIRST, key=str)


def test_damage_before_the_last_block_is_an_error(tmp_path):
    written(tmp_path, FIRST, SECOND, THIRD)
    path = tmp_path / "events-00000000.log"
    data = bytearray(path.read_bytes())
    data[log_file.HEADER.size + 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="block at byte 0 does not match its checksum"):
        EventLog(tmp_path)
    path.write_bytes(data)  # the folder is not locked after it


def test_unfinished_block_in_a_file_that_is_not_the_last_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "SEGMENT_BYTES", 1)
    written(tmp_path, FIRST, SECOND)
    path = tmp_path / "events-00000000.log"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="damaged"):
        EventLog(tmp_path)


def test_missing_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "SEGMENT_BYTES", 1)
    written(tmp_path, FIRST, SECOND, THIRD)
    assert len(list(tmp_path.glob("events-*.log"))) == 3
    assert read(tmp_path) == sorted([*FIRST, *SECOND, *THIRD], key=str)
    (tmp_path / "events-00000000.log").unlink()
    with pytest.raises(ArtifactError, match="missing file"):
        EventLog(tmp_path)


def test_missing_file_in_the_middle_is_an_error(tmp_path, monkeypatch):
    """It introduces no user and no item, so that only the numbers of the events tell."""
    monkeypatch.setattr(log_file, "SEGMENT_BYTES", 1)
    written(tmp_path, FIRST, [("b", 1, 7, 5)], [("a", 0, 8, 6)])
    middle, last = (tmp_path / f"events-0000000{number}.log" for number in (1, 2))
    middle.unlink()
    with pytest.raises(
        ArtifactError, match=r"events-00000001.log: expected this file .* got events-00000002.log"
    ):
        EventLog(tmp_path)
    last.rename(middle)
    with pytest.raises(
        ArtifactError, match="expected a block that begins with event 2, got one that begins with 3"
    ):
        EventLog(tmp_path)


def test_failed_write_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    log = EventLog(tmp_path)
    add(log, FIRST)
    write = os.pwrite

    def half(handle, data, at):
        if at > half.start:
            raise OSError(28, "No space left on device")
        return write(handle, data[: len(data) // 2], at)

    half.start = log.file._end
    monkeypatch.setattr(log_file.os, "pwrite", half)
    with pytest.raises(OSError, match="No space left"):
        add(log, SECOND)
    monkeypatch.undo()
    assert contents(log) == sorted(FIRST, key=str)
    add(log, THIRD)
    add(log, SECOND)
    log.close()
    assert read(tmp_path) == sorted([*FIRST, *SECOND, *THIRD], key=str)


def full(*_):
    raise OSError(28, "No space left on device")


def test_user_whose_first_events_met_a_full_disk_can_be_forgotten(tmp_path, monkeypatch):
    with EventLog(tmp_path) as log:
        add(log, FIRST)
        monkeypatch.setattr(log_file.os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            add(log, [("ü", 0, 9, 4)])
        monkeypatch.undo()
        log.forget("ü")
    assert read(tmp_path) == sorted(FIRST, key=str)
    written(tmp_path, [("c", 0, 9, 5)])
    assert read(tmp_path) == sorted([*FIRST, ("c", 0, 9, 5)], key=str)


def test_files_with_an_erased_user_who_was_never_written_are_read(tmp_path):
    written(tmp_path, FIRST)
    with (tmp_path / "events-00000000.log").open("ab") as file:
        block = log_file.Block(2, np.empty(0, log_file.EVENT), forgotten=(user_digest("c"), 5), erased=2)
        file.write(block.packed())
    assert read(tmp_path) == sorted(FIRST, key=str)
    written(tmp_path, [("c", 0, 9, 5)])  # another user gets this number
    assert read(tmp_path) == sorted([*FIRST, ("c", 0, 9, 5)], key=str)


def test_erased_user_is_in_no_file(tmp_path, monkeypatch):
    """Spec test 39, for the files."""
    monkeypatch.setattr(log_file, "SEGMENT_BYTES", 1)
    written(tmp_path, [("secret", 0, 123456789, 987654321), ("b", 1, 5, 2)], [("secret", 0, 5, 3)], THIRD)
    with EventLog(tmp_path) as log:
        log.forget("secret")
        log.clean()
        add(log, SECOND)
        expected = contents(log)
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in data
    assert np.int64(123456789).tobytes() not in data
    assert np.uint64(987654321).tobytes() not in data
    with EventLog(tmp_path) as log:
        assert contents(log) == expected
        assert set(log.forgotten) == {user_digest("secret")}
        assert log.users[0] is None


def test_erasure_that_was_interrupted_is_finished(tmp_path, monkeypatch):
    """The block about the user is written first."""
    log = EventLog(tmp_path)
    add(log, FIRST)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(log_file, "_erase", killed)
    log.forget("a")
    with pytest.raises(KeyboardInterrupt):
        log.clean()
    monkeypatch.undo()
    log.close()
    with EventLog(tmp_path) as log:
        assert contents(log) == [FIRST[1]]
    assert b'"a"' not in (tmp_path / "events-00000000.log").read_bytes()


def test_only_files_with_rows_or_the_id_of_the_user_are_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "SEGMENT_BYTES", 1)
    erase, parsed = log_file._erase, []
    with EventLog(tmp_path) as log:
        for batch in (FIRST, THIRD, [("c", 0, 1, 1)], SECOND):
            add(log, batch)
        monkeypatch.setattr(
            log_file, "_erase", lambda path, own: (parsed.append(path.name), erase(path, own))
        )
        log.forget("a")
        log.clean()
    assert sorted(parsed) == ["events-00000000.log", "events-00000003.log"]
    assert [one[0] for one in read(tmp_path)] == ["b", "b", "c", "ü"]


def test_only_one_process_has_a_folder_open(tmp_path):
    with EventLog(tmp_path), pytest.raises(ArtifactError, match="is writing to it"):
        EventLog(tmp_path)
    EventLog(tmp_path).close()


def test_closed_log_refuses_events(tmp_path):
    log = EventLog(tmp_path, sync=True)
    add(log, FIRST)
    log.close()
    log.close()
    with pytest.raises(ArtifactError, match="closed"):
        add(log, SECOND)
    assert contents(log) == sorted(FIRST, key=str)


def test_events_of_numbers_that_are_not_there_are_refused(tmp_path):
    written(tmp_path, FIRST)
    path = tmp_path / "events-00000000.log"
    events = np.array([(7, 0, 5, 9)], log_file.EVENT)
    with path.open("ab") as file:
        file.write(log_file.Block(2, events).packed())
    with pytest.raises(ArtifactError, match="user 7"):
        EventLog(tmp_path)
