"""Time of `train` without a recipe over its budget, and over one fit of each planned part, on short histories."""

import json
import os
import subprocess
import sys
from typing import Any

from shortlist.errors import ShortlistError
from shortlist.lab.result import Result, at_least, at_most, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.auto.plan import MINUTES

CORES = 2
MIB = 1 << 20
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def bench_train(
    seed: int = 0, minutes: float = MINUTES, size: str = "full", progress: Progress = silent
) -> Result:
    """One training in a process of its own on two cores, then one fit of each part of the pipeline that it planned."""
    began = start()
    progress("bench train", 0, 1)
    run = _child(seed, minutes, size)
    progress("bench train", 1, 1)
    parts = run["parts"]
    rows = [row("auto", "seconds", [run["seconds"]]), row("auto", "peak_mib", [run["peak_bytes"] / MIB])]
    rows += [row("auto", "recall@20", [run["recall"]])] if run["recall"] is not None else []
    rows += [row(name, "seconds", [own]) for name, own in parts.items()]
    rows += [row(name, "recall@20", [own]) for name, own in run["compared"].items()]
    claims = [
        at_most("seconds_over_budget", "target of this project", run["seconds"] / (60 * minutes), 1.2),
        at_most("auto_over_parts", "target of this project", run["seconds"] / sum(parts.values()), 2.5),
        at_least("sequence_model_in_the_pool", "target of this project", float(run["sequence"]), 1),
    ]
    figures = {one.id: one.estimate for one in claims} | {"peak_mib": run["peak_bytes"] / MIB}
    log = f"{run['events']:,} events, {run['users']:,} users, {run['items']:,} items"
    profile = f"{log}, {minutes:g} minutes, {CORES} cores"
    return result("train", profile, [seed], began, rows, claims, figures=figures, note=run["pipeline"])


def _child(seed: int, minutes: float, size: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "shortlist.lab.bench.train_job"]
    command += [str(seed), str(minutes), size, str(CORES)]
    threads = dict.fromkeys(THREADS, str(CORES))
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **threads})
    if done.returncode:
        raise ShortlistError(f"bench train: the job failed: {done.stderr.strip()[-400:]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured
