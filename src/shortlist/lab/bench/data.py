"""Time from a Parquet file to split and windowed interactions, over pyarrow's own read and sort of the file."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shortlist.errors import ShortlistError
from shortlist.lab.bench.timing import estimates
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.progress import Progress, silent

EVENTS = 10_000_000
GROUP = 1 << 20
REPEATS = 3


def bench_data(
    seed: int = 0, events: int = EVENTS, repeats: int = REPEATS, progress: Progress = silent
) -> Result:
    """Both jobs in separate processes, alternating; medians of their ratios."""
    began = start()
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder:
        path = Path(folder, "events.parquet")
        write_events(path, events, seed)
        runs: dict[str, list[dict[str, float]]] = {"scan": [], "ours": []}
        for number in range(repeats):
            for step, job in enumerate(runs):
                progress("bench data", 2 * number + step, 2 * repeats)
                runs[job].append(_child(job, path))
    ratios = [
        ours["seconds"] / scan["seconds"] for ours, scan in zip(runs["ours"], runs["scan"], strict=True)
    ]
    peaks = [ours["peak_bytes"] / ours["column_bytes"] for ours in runs["ours"]]
    rows = [row("ours", "ratio_to_scan", ratios), row("ours", "peak_over_columns", peaks)]
    rows += [row(job, "seconds", [run["seconds"] for run in own]) for job, own in runs.items()]
    rows += [row(job, "peak_bytes", [run["peak_bytes"] for run in own]) for job, own in runs.items()]
    rows += [row("ours", "start_bytes", [run["start_bytes"] for run in runs["ours"]])]
    claims = [
        at_most("ratio_to_scan", "foundation", statistics.median(ratios), 6.0),
        at_most("peak_over_columns", "foundation", statistics.median(peaks), 4.0),
    ]
    return result("data", f"{events} events", [seed], began, rows, claims, figures=estimates(claims))


def write_events(path: Path, events: int, seed: int) -> None:
    """A log with power-law users and items in random order: ids are arbitrary integers, times milliseconds."""
    rng = np.random.default_rng(seed)
    n_users, n_items = max(events // 50, 2), max(events // 200, 2)
    schema = pa.schema({"user": pa.int64(), "item": pa.int64(), "time": pa.int64(), "weight": pa.float32()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, events, GROUP):
            count = min(GROUP, events - start)
            columns = {
                "user": 7 + 11 * (n_users * rng.random(count) ** 2).astype(np.int64),
                "item": 5 + 13 * (n_items * rng.random(count) ** 3).astype(np.int64),
                "time": 1_600_000_000_000 + rng.integers(0, 15_000_000_000, count),
                "weight": rng.integers(1, 6, count).astype(np.float32),
            }
            writer.write_table(pa.table(columns, schema=schema))


def _child(job: str, path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "shortlist.lab.bench.data_job", job, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShortlistError(f"bench data: the job {job!r} failed: {done.stderr.strip()[-400:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
