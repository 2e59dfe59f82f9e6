"""Latency of every stage of several pipelines for single requests, measured in turns in one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from shortlist.data import Query
from shortlist.evaluate.latency import TAIL, WARMUP, Clock, one_thread
from shortlist.grammar import Pipeline
from shortlist.pipeline import Trace, run
from shortlist.progress import Progress, silent

TRIES = 2  # of every request; the faster one counts, which filters out most other work on the machine

StageMs = list[tuple[str, str, str | None, float]]  # name, kind, part of, milliseconds
Turn = tuple[float, StageMs]  # milliseconds of the request, and of its stages


@dataclass(frozen=True)
class StageTime:
    """Milliseconds of one stage; a nominator is `part_of` a pool, whose time includes it."""

    name: str
    kind: str
    part_of: str | None
    median_ms: float
    p95_ms: float


@dataclass(frozen=True)
class Times:
    """Milliseconds of single requests on one thread, in total and stage by stage."""

    median_ms: float
    p95_ms: float
    requests: int
    stages: tuple[StageTime, ...]

    @property
    def work_ms(self) -> float:
        """The sum of the stages' medians: less noisy than the median of the total, on a busy machine."""
        return sum(stage.median_ms for stage in self.stages if stage.part_of is None)


def stage_times(
    pipelines: Mapping[str, Pipeline],
    queries: Sequence[Query],
    requests: int = 60,
    seconds: float = 10.0,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> dict[str, Times]:
    """Run every pipeline on the same single requests, in turns that start with another pipeline each time.

    The first turns do not count. Each request is tried twice and the faster try counts, so that times include little
    of the other work on the machine. Turns end early, but not before one was counted, after `seconds`.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in pipelines}
    began = clock()
    with one_thread(), torch.no_grad():
        for turn in range(-WARMUP, requests):
            if turn > 0 and clock() - began > seconds:
                break
            fastest = _turn(pipelines, queries[turn % len(queries)], turn, clock)
            if turn >= 0:
                for name, times in fastest.items():
                    turns[name].append(times)
            progress("time: every stage", max(turn + 1, 0), requests)
    progress("time: every stage", requests, requests)
    return {name: _times(own) for name, own in turns.items()}


def _turn(pipelines: Mapping[str, Pipeline], query: Query, turn: int, clock: Clock) -> dict[str, Turn]:
    """The fastest try of every pipeline on one request; the tries of one pipeline lie apart."""
    names, fastest = list(pipelines), dict[str, Turn]()
    for attempt in range(TRIES):
        first = (turn * TRIES + attempt) % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            trace = run(pipelines[name], query, clock).trace
            ms = (clock() - start) * 1e3
            if name not in fastest or ms < fastest[name][0]:
                fastest[name] = (ms, _stage_ms(trace))
    return fastest


def _stage_ms(trace: Trace) -> StageMs:
    """The times of a trace without its candidates, which may take much memory."""
    times: StageMs = []
    for step in trace.steps:
        times.append((step.name, step.kind, None, step.ms))
        times += [(part.name, "nominator", step.name, part.ms) for part in step.parts if len(step.parts) > 1]
    return times


def _times(turns: Sequence[Turn]) -> Times:
    median, p95 = _quantiles([ms for ms, _ in turns])
    stages = []
    for at, (name, kind, part_of, _) in enumerate(turns[0][1]):
        stages.append(StageTime(name, kind, part_of, *_quantiles([times[at][3] for _, times in turns])))
    return Times(median, p95, len(turns), tuple(stages))


def _quantiles(times: Sequence[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    ordered = sorted(times)
    return float(np.median(ordered)), ordered[min(int(TAIL * len(ordered)), len(ordered) - 1)]
