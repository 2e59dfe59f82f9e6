"""Latency of pipelines, measured in alternation in one run so that all share the state of the machine."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from shortlist.data import HeldOut, Query
from shortlist.grammar import Pipeline
from shortlist.pipeline import run
from shortlist.pipeline.batch.held_out import longest_history
from shortlist.progress import Progress, silent

Clock = Callable[[], float]  # seconds

BATCH = 64
WARMUP = 3  # first rounds that are not counted
TAIL = 0.95


@dataclass(frozen=True)
class Latency:
    """Milliseconds of single requests, and requests per second in batches; one thread."""

    median_ms: float
    p95_ms: float
    per_second: float
    requests: int  # single requests that were timed
    batches: int  # batches that were timed, of `batch` requests each
    batch: int


def latencies(
    pipelines: Mapping[str, Pipeline],
    held_out: HeldOut,
    requests: int = 200,
    batches: int = 10,
    seconds: float = 20.0,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> dict[str, Latency]:
    """Time every pipeline on the same requests: rounds of one request each, then rounds of one batch each.

    At least one round is counted; rounds stop after `seconds`, half of it for single requests and half for batches.
    """
    single = [held_out.take(slice(at, at + 1)) for at in range(min(requests, len(held_out)))]
    rows = np.arange(batches * BATCH).reshape(batches, BATCH) % len(
        held_out
    )  # repeats where there are too few
    full = [held_out.take(row) for row in rows]
    with one_thread():
        singles = _rounds(pipelines, single, requests, seconds / 2, clock, progress, "time: one request")
        groups = _rounds(pipelines, full, batches, seconds / 2, clock, progress, "time: batches")
    return {name: _latency(singles[name], groups[name]) for name in pipelines}


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


Timing = tuple[float, int]  # seconds, requests


def _rounds(
    pipelines: Mapping[str, Pipeline],
    batches: Sequence[HeldOut],
    count: int,
    seconds: float,
    clock: Clock,
    progress: Progress,
    task: str,
) -> dict[str, list[Timing]]:
    """The timings of each pipeline; every round starts with another pipeline."""
    timings: dict[str, list[Timing]] = {name: [] for name in pipelines}
    began = clock()
    for number in range(-WARMUP, count):
        if number > 0 and clock() - began > seconds:
            break
        batch = batches[number % len(batches)]
        query = batch.query(width=longest_history(batch))
        for name in _rotated(list(pipelines), number):
            spent = _timed(pipelines[name], query, clock)
            if number >= 0:
                timings[name].append((spent, len(batch)))
        progress(task, max(number + 1, 0), count)
    progress(task, count, count)
    return timings


def _rotated(names: list[str], by: int) -> list[str]:
    first = by % len(names)
    return names[first:] + names[:first]


@torch.no_grad()
def _timed(pipeline: Pipeline, query: Query, clock: Clock) -> float:
    began = clock()
    run(pipeline, query)
    return clock() - began


def _latency(singles: list[Timing], groups: list[Timing]) -> Latency:
    ms = sorted(spent * 1e3 for spent, _ in singles)
    seconds, answered = sum(spent for spent, _ in groups), sum(count for _, count in groups)
    p95 = ms[min(int(TAIL * len(ms)), len(ms) - 1)]
    # A clock too coarse to see the batches gives no rate.
    rate = answered / seconds if seconds > 0 else float("nan")
    return Latency(statistics.median(ms), p95, rate, len(singles), len(groups), BATCH)
