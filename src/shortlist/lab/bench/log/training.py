"""From a full-stage log to training batches, over pyarrow's own scan of the same files."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shortlist.errors import ShortlistError
from shortlist.feedback.manifest import MANIFEST, read_manifest
from shortlist.lab.bench.log.simulated import write_simulated
from shortlist.lab.bench.log.training_job import JOBS
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.progress import Progress, silent

REQUESTS = 20_000
MIB = 1 << 20
MOST_MIB = 1024
SCANS = ("scan", "scan_used")
OURS = tuple(name for name in JOBS if name not in SCANS)


def bench_log_training(
    seed: int = 0, requests: int = REQUESTS, root: Path | None = None, progress: Progress = silent
) -> Result:
    """A simulated log is scanned by pyarrow, joined, relabelled and turned into training batches, each in a process.

    A log that `write_simulated` left in the folder `root` is used again. A scan that is not measured comes first, so
    that every job finds the files in memory, as far as they fit.
    """
    began = start()
    with _log(root, requests, seed, progress) as folder:
        _child("scan", folder)
        runs = {}
        for number, job in enumerate(JOBS):
            progress("bench log-training", number, len(JOBS))
            runs[job] = _child(job, folder)
        size = sum(part.bytes for part in read_manifest(folder).parts)
    rows = [row(job, "seconds", [run["seconds"]]) for job, run in runs.items()]
    rows += [row(job, "peak_mib", [run["peak_bytes"] / MIB]) for job, run in runs.items()]
    figures = _figures(runs) | {"log_bytes": float(size)}
    claims = [at_most("peak_mib", "target of this project", figures["peak_mib"], MOST_MIB)]
    profile = f"{runs['join']['requests']:,.0f} requests, {runs['join']['rows']:,.0f} candidates, one thread"
    return result("log-training", profile, [seed], began, rows, claims, figures=figures)


def _figures(runs: dict[str, dict[str, float]]) -> dict[str, float]:
    """Rates of every job, their times over that of the scan, and the largest peak of our jobs."""
    figures: dict[str, float] = {"peak_mib": max(runs[job]["peak_bytes"] for job in OURS) / MIB}
    figures |= {"scan_peak_mib": runs["scan"]["peak_bytes"] / MIB}
    for job, run in runs.items():
        figures[f"{job}_requests_per_s"] = run["requests"] / run["seconds"]
        figures[f"{job}_rows_per_s"] = run["rows"] / run["seconds"]
    for job in OURS:
        for name in SCANS:
            figures[f"{job}_over_{name}"] = runs[job]["seconds"] / runs[name]["seconds"]
            figures[f"{job}_over_{name}_cpu"] = runs[job]["cpu_seconds"] / runs[name]["cpu_seconds"]
    figures["instances_per_s"] = runs["batches"]["made"] / runs["batches"]["seconds"]
    return figures


@contextmanager
def _log(root: Path | None, requests: int, seed: int, progress: Progress) -> Iterator[Path]:
    """A log of this size, in a folder that is removed if none is given."""
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as temporary:
        folder = root or Path(temporary) / "log"
        if not (folder / MANIFEST).is_file():
            write_simulated(folder, requests, seed, progress)
        yield folder


def _child(job: str, root: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "shortlist.lab.bench.log.training_job", job, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShortlistError(f"bench log-training: the job {job!r} failed: {done.stderr.strip()[-400:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured
