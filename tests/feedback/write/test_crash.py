"""A crash at every step of writing a part: the log has the part whole or not at all, and the next writer goes on."""

import os
from pathlib import Path

import pytest

from shortlist.data import Vocabulary
from shortlist.feedback import manifest
from shortlist.feedback.reader import LogReader
from shortlist.feedback.write.buffer import Buffer, write_buffer
from shortlist.feedback.write.from_trace import from_trace
from shortlist.feedback.write.sampling import EVERYTHING, sampled
from shortlist.feedback.write.writer import FullStageLogger
from tests.feedback.logs import funnel, meta_of, traces, write_log

ITEMS = Vocabulary.of(range(60))
RUNS = traces(funnel(60, 20, 5), 3)


class CrashError(BaseException):
    """The end of the process; nothing catches it."""


def crash_at(monkeypatch, step):
    """Stop at the given one of all writes, synchronisations and renames; a write stops in its middle."""
    left = iter(range(step, -1, -1))

    def crashing(real, half=False):
        def call(*given):
            if next(left, -1) == 0:
                if half:
                    real(given[0], given[1][: len(given[1]) // 2])
                raise CrashError
            return real(*given)

        return call

    monkeypatch.setattr(os, "fsync", crashing(os.fsync))
    monkeypatch.setattr(Path, "replace", crashing(Path.replace))
    monkeypatch.setattr(manifest, "_write", crashing(manifest._write, half=True))
    return left


def buffer_of(first, seq):
    made = Buffer(ITEMS, seq=seq)
    for number, trace in enumerate(RUNS):
        record = sampled(from_trace(trace, meta_of(trace, first=first + number)), EVERYTHING)
        made.add(record, [None], 0.0)
    return made


def ids(root):
    reader = LogReader(root, check=True)
    found = [one for record in reader.requests() for one in record.request_id.tolist()]
    assert not {*reader.problems.counts} - {"bad_manifest_lines", "incomplete_parts"}
    return sorted(found)


@pytest.mark.parametrize("step", range(12))
def test_part_is_there_whole_or_not_at_all(tmp_path, monkeypatch, step):
    write_log(tmp_path, RUNS, items=ITEMS)
    before = ids(tmp_path)
    added = [meta_of(trace, first=100 + at).request_id[0] for at, trace in enumerate(RUNS)]
    with monkeypatch.context() as patch:
        left = crash_at(patch, step)
        try:
            write_buffer(tmp_path, "0", buffer_of(100, 1))
            crashed = False
        except CrashError:
            crashed = True
    assert ids(tmp_path) in (before, sorted(before + added))
    assert crashed or (next(left, None) is not None and ids(tmp_path) == sorted(before + added))
    kept = ids(tmp_path)
    with FullStageLogger(tmp_path, ITEMS) as log:  # the next process
        log.offer(RUNS[0], meta_of(RUNS[0], first=500))
    assert len(ids(tmp_path)) == len(kept) + 1
    assert not list(tmp_path.rglob("*.tmp"))
    assert not manifest.read_manifest(tmp_path).bad_lines
