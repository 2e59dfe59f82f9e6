"""One job of the data benchmark, in a separate process so that its peak memory can be measured."""

import json
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from shortlist.data import Interactions, build_dataset, sliding
from shortlist.data.sources import read_source


def ours(path: Path) -> int:
    """Parquet to split and windowed interactions; returns the bytes of the event columns."""
    dataset = build_dataset(read_source("tabular", path))
    split = dataset.split()
    windows = sliding(split.train)
    assert len(windows) + len(split.valid) + len(split.test) > 0
    return column_bytes(dataset.events)


def scan(path: Path) -> int:
    """The pyarrow baseline: read the file, sort it by user and time."""
    table = pq.read_table(path).sort_by([("user", "ascending"), ("time", "ascending")])
    return int(table.nbytes)


def column_bytes(events: Interactions) -> int:
    """Bytes of the event columns."""
    columns = (events.users, events.items, events.times, events.weights)
    return sum(column.nbytes for column in columns)


def peak_bytes() -> int:
    """Peak resident memory of this process, 0 where the system does not report it."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return 0
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


def main(job: str, path: str) -> None:
    """Run a job and print its seconds and bytes as JSON."""
    start = peak_bytes()
    began = time.perf_counter()
    size = {"ours": ours, "scan": scan}[job](Path(path))
    measured = {
        "seconds": time.perf_counter() - began,
        "column_bytes": size,
        "peak_bytes": peak_bytes(),
        "start_bytes": start,
    }
    sys.stdout.write(json.dumps(measured))


if __name__ == "__main__":
    main(*sys.argv[1:])
