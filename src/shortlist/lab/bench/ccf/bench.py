"""Examples per second of the training of CCF over a plain loop with dense gradients, and its peak memory."""

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from shortlist.errors import ShortlistError
from shortlist.lab.bench.ccf.plain import OPTIMIZERS, PLAIN
from shortlist.lab.bench.ccf.sizes import SIZES, Size
from shortlist.lab.bench.train import THREADS
from shortlist.lab.result import Result, Row, at_least, result, row, start
from shortlist.progress import Progress, silent

SOURCE = "target of this project"
LEAST = 5.0
MIB = 1 << 20


def bench_ccf(seed: int = 0, size: str = "full", progress: Progress = silent) -> Result:
    """Steps of both sides in alternation on one thread, then one epoch over all events in a process of its own.

    `speedup` is the median over rounds of the ratio to the plain loop with torch's Adagrad; `speedup_over_NAME` is that
    to other optimizers.
    """
    began = start()
    progress("bench ccf: steps", 0, 2)
    steps = _child("compare", size, seed)
    progress("bench ccf: epoch", 1, 2)
    whole = _child("epoch", size, seed)
    progress("bench ccf: epoch", 2, 2)
    given, seconds = SIZES[size], steps["seconds"]
    speedups = {name: _ratio(seconds[name], seconds["ours"]) for name in OPTIMIZERS}
    claims = [at_least("speedup", SOURCE, speedups.pop(PLAIN), LEAST)]
    figures = {
        "examples_per_s": given.batch_size / statistics.median(seconds["ours"]),
        "plain_examples_per_s": given.batch_size / statistics.median(seconds[PLAIN]),
        "speedup": claims[0].estimate,
        **{f"speedup_over_{name.replace('-', '_')}": ratio for name, ratio in speedups.items()},
        "epoch_seconds": whole["seconds"],
        "epoch_examples_per_s": given.events / whole["seconds"],
        "peak_mib": whole["peak_bytes"] / MIB,
    }
    profile = (
        f"{given.events:,} events, {given.users:,} users, {given.items:,} items, batches of {given.batch_size}, "
        f"one thread; plain loop with {PLAIN}"
    )
    return result("ccf", profile, [seed], began, _rows(given, steps, whole), claims, figures=figures)


def _ratio(over: list[float], under: list[float]) -> float:
    """The median over rounds."""
    return statistics.median(one / two for one, two in zip(over, under, strict=True))


def _rows(given: Size, steps: dict[str, Any], whole: dict[str, float]) -> list[Row]:
    """Examples per second of every side, how much gradients differ, and the memory of one epoch."""
    rows = [
        row(name, "examples_per_s", [given.batch_size / one for one in own])
        for name, own in steps["seconds"].items()
    ]
    rows.append(row("ours", "largest difference of gradients", [steps["difference"]]))
    rows.append(row("epoch", "seconds", [whole["seconds"]]))
    return [
        *rows,
        row("epoch", "peak_mib", [whole["peak_bytes"] / MIB]),
        row("log", "peak_mib", [whole["log_peak_bytes"] / MIB]),
    ]


def _child(job: str, size: str, seed: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "shortlist.lab.bench.ccf.job", job, size, str(seed)]
    threads = dict.fromkeys(THREADS, "1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **threads})
    if done.returncode:
        raise ShortlistError(f"bench ccf: the job failed: {done.stderr.strip()[-400:]}")
    measured: dict[str, Any] = json.loads(done.stdout)
    return measured
