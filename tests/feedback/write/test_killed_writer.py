"""kill -9 at random moments: every table stays readable, and nothing that was flushed is lost."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from shortlist.feedback.inspection import inspect_log
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat

REPEATS = 5
STEP = 100_000  # first number of the requests of each process


def killed(root: Path, first: int, after: float) -> int:
    """Start a writer, kill it after some seconds of writing, and return how many requests it had flushed."""
    command = [sys.executable, "-m", "tests.feedback.write.killed_writer", str(root), str(first)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
    lines = process.communicate()[0].split("\n")[:-1]
    return int(lines[-1]) if lines else 0


@pytest.mark.slow
def test_killed_writer_leaves_a_log_that_can_be_read(tmp_path):
    generator, flushed = random.Random(0), 0
    for repeat in range(REPEATS):
        flushed += killed(tmp_path, repeat * STEP, generator.uniform(0.05, 0.6))
        reader = LogReader(tmp_path, check=True)
        record = concat(list(reader.requests()))
        kinds = {*reader.problems.counts} - {
            "bad_manifest_lines",
            "incomplete_parts",
        }  # an unfinished last line
        assert not kinds, reader.problems.examples
        assert len(record) >= flushed
        assert (
            record.n_out[:, -1] == np.bincount(record.request[record.position > 0], minlength=len(record))
        ).all()
    assert inspect_log(tmp_path, check=True).requests >= flushed > 0
