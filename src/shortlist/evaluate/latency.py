"""How long pipelines take to answer, measured in turns in one run, so that all see the same weather."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from shortlist.data import HeldOut, Query
from shortlist.evaluate.evaluation import longest
from shortlist.grammar import Pipeline
from shortlist.pipeline import run
from shortlist.progress import Progress, silent

Clock = Callable[[], float]  # seconds

BATCH = 64
WARM = 3  # first turns that are not counted
LATE = 0.95


@dataclass(frozen=True)
class Latency:
    """Milliseconds of one request alone, and requests per second in batches; one thread."""

    median_ms: float
    p95_ms: float
    per_second: float
    requests: int  # timed alone
    batches: int  # timed, of `batch` requests each
    batch: int


def latencies(
    pipelines: Mapping[str, Pipeline],
    cases: HeldOut,
    requests: int = 200,
    batches: int = 10,
    seconds: float = 20.0,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> dict[str, Latency]:
    """Time every pipeline on the same requests, one request of each in turn, then one batch of each in turn.

    Turns end early, but not before one was counted, when they have taken `seconds`, half of it for either kind.
    """
    alone = [cases.take(slice(at, at + 1)) for at in range(min(requests, len(cases)))]
    full = np.arange(batches * BATCH).reshape(batches, BATCH) % len(cases)  # too few cases are asked again
    many = [cases.take(rows) for rows in full]
    with one_thread():
        singles = _turns(pipelines, alone, requests, seconds / 2, clock, progress, "time: one request")
        groups = _turns(pipelines, many, batches, seconds / 2, clock, progress, "time: batches")
    return {name: _told(singles[name], groups[name]) for name in pipelines}


@contextmanager
def one_thread() -> Iterator[None]:
    """All work on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


Turn = tuple[float, int]  # seconds, requests


def _turns(
    pipelines: Mapping[str, Pipeline],
    asked: Sequence[HeldOut],
    count: int,
    seconds: float,
    clock: Clock,
    progress: Progress,
    what: str,
) -> dict[str, list[Turn]]:
    """What each turn of each pipeline took; in every turn another one begins."""
    took: dict[str, list[Turn]] = {name: [] for name in pipelines}
    began = clock()
    for turn in range(-WARM, count):
        if turn > 0 and clock() - began > seconds:
            break
        cases = asked[turn % len(asked)]
        query = cases.query(width=longest(cases))
        for name in _from(list(pipelines), turn):
            spent = _timed(pipelines[name], query, clock)
            if turn >= 0:
                took[name].append((spent, len(cases)))
        progress(what, max(turn + 1, 0), count)
    progress(what, count, count)
    return took


def _from(names: list[str], turn: int) -> list[str]:
    """The names in a circle, from another one in every turn."""
    first = turn % len(names)
    return names[first:] + names[:first]


@torch.no_grad()
def _timed(pipeline: Pipeline, query: Query, clock: Clock) -> float:
    began = clock()
    run(pipeline, query)
    return clock() - began


def _told(singles: list[Turn], groups: list[Turn]) -> Latency:
    alone = sorted(spent * 1e3 for spent, _ in singles)
    spent, answered = sum(one for one, _ in groups), sum(many for _, many in groups)
    late = alone[min(int(LATE * len(alone)), len(alone) - 1)]
    # A clock that cannot tell the time apart says nothing of speed.
    rate = answered / spent if spent > 0 else float("nan")
    return Latency(statistics.median(alone), late, rate, len(singles), len(groups), BATCH)
