"""Slow: a user with a million events, and a process that is killed while it writes."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from shortlist.state import EventLog, UserEvent
from tests.state.live_world import NOW, make_store

WRITER = """
import sys
import numpy as np
from shortlist.state import EventLog
log = EventLog(sys.argv[1])
log.add_items([100])
at = 0
while True:
    users = log.user_numbers([f"user {at % 50}"])
    log.append(users, np.zeros(1, np.int32), np.array([at]), np.array([at], np.uint64))
    at += 1
    print(at, flush=True)
"""


@pytest.mark.slow
def test_user_with_a_million_events():
    """Memory is that of the columns; an event costs the same at the end; the history is bounded."""
    count, store = 1_000_000, make_store(max_history=1000)
    ids, seconds = np.arange(count), []
    for at in range(0, count, 10_000):
        part = ids[at : at + 10_000]
        began = time.process_time()
        store.apply_columns(["heavy"] * len(part), (100 + part % 30).tolist(), 1000 * part, part, 10**10)
        seconds.append(time.process_time() - began)
    assert store.history("heavy") == [at % 30 for at in range(count - 1000, count)]
    memory = store.memory()
    assert memory.bytes_per_event < 64
    assert memory.checkpoints < 10_000
    report = store.apply([UserEvent("heavy", 105, 1000 * count - 5500, 10**12)], NOW)
    assert (report.applied, report.late) == (1, 0)
    assert store.history("heavy")[-7:] == [4, 5, 5, 6, 7, 8, 9]  # the sixth from the end is the late one
    other = make_store()
    other.apply_columns(["heavy"] * count, (100 + ids % 30).tolist(), 1000 * ids, ids, 10**10)
    other.apply([UserEvent("heavy", 105, 1000 * count - 5500, 10**12)], NOW)
    assert store.record("heavy") == other.record("heavy")


@pytest.mark.slow
def test_every_event_that_was_acknowledged_is_there_after_a_kill(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        last = 0
        for line in process.stdout:
            last = int(line)
            if last == 500:
                os.kill(process.pid, signal.SIGKILL)
                break
        last = max([last, *(int(one) for one in process.stdout.read().split())])
    with EventLog(tmp_path) as log:
        assert log.size >= last >= 500
        assert log.id.values.tolist() == list(range(log.size))
