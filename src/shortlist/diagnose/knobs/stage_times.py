"""How long every stage of several pipelines takes for one request, measured in turns in one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from shortlist.data import Query
from shortlist.evaluate.latency import LATE, WARM, Clock, one_thread
from shortlist.grammar import Pipeline
from shortlist.pipeline import Trace, run
from shortlist.progress import Progress, silent

TRIES = 2  # of every request; the faster one counts, so that other work on the machine rarely does

Light = list[tuple[str, str, str | None, float]]  # name, kind, part of, milliseconds
Turn = tuple[float, Light]  # milliseconds of the whole, and of the stages


@dataclass(frozen=True)
class StageTime:
    """Milliseconds of one stage; a nominator is `part_of` a pool, whose time holds its own."""

    name: str
    kind: str
    part_of: str | None
    median_ms: float
    p95_ms: float


@dataclass(frozen=True)
class Times:
    """Milliseconds of single requests on one thread, whole and stage by stage."""

    median_ms: float
    p95_ms: float
    requests: int
    stages: tuple[StageTime, ...]

    @property
    def work_ms(self) -> float:
        """The medians of the stages added up: hardly any waiting for other work, which rarely meets the same stage."""
        return sum(stage.median_ms for stage in self.stages if stage.part_of is None)


def stage_times(
    pipelines: Mapping[str, Pipeline],
    queries: Sequence[Query],
    requests: int = 60,
    seconds: float = 10.0,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> dict[str, Times]:
    """Ask every pipeline the same single request, in every turn another one first; the first turns do not count.

    Each request is tried twice, and the faster try counts: what is told is the time of the pipeline, with little of
    whatever else the machine is doing. Turns end early, but not before one was counted, when they have taken `seconds`.
    """
    took: dict[str, list[Turn]] = {name: [] for name in pipelines}
    began = clock()
    with one_thread(), torch.no_grad():
        for turn in range(-WARM, requests):
            if turn > 0 and clock() - began > seconds:
                break
            fastest = _turn(pipelines, queries[turn % len(queries)], turn, clock)
            if turn >= 0:
                for name, one in fastest.items():
                    took[name].append(one)
            progress("time: every stage", max(turn + 1, 0), requests)
    progress("time: every stage", requests, requests)
    return {name: _times(turns) for name, turns in took.items()}


def _turn(pipelines: Mapping[str, Pipeline], query: Query, turn: int, clock: Clock) -> dict[str, Turn]:
    """The fastest try of every pipeline on one request; tries of one pipeline lie apart."""
    names, fastest = list(pipelines), dict[str, Turn]()
    for attempt in range(TRIES):
        first = (turn * TRIES + attempt) % len(names)
        for name in names[first:] + names[:first]:
            start = clock()
            trace = run(pipelines[name], query, clock).trace
            spent = (clock() - start) * 1e3
            if name not in fastest or spent < fastest[name][0]:
                fastest[name] = (spent, _light(trace))
    return fastest


def _light(trace: Trace) -> Light:
    """The times of a trace without its candidates, which may be many."""
    told: Light = []
    for step in trace.steps:
        told.append((step.name, step.kind, None, step.ms))
        told += [(part.name, "nominator", step.name, part.ms) for part in step.parts if len(step.parts) > 1]
    return told


def _times(turns: Sequence[Turn]) -> Times:
    median, late = _middle([spent for spent, _ in turns])
    stages = []
    for at, (name, kind, part_of, _) in enumerate(turns[0][1]):
        stages.append(StageTime(name, kind, part_of, *_middle([told[at][3] for _, told in turns])))
    return Times(median, late, len(turns), tuple(stages))


def _middle(spent: Sequence[float]) -> tuple[float, float]:
    """The median, and what 95 % stay within."""
    ordered = sorted(spent)
    return float(np.median(ordered)), ordered[min(int(LATE * len(ordered)), len(ordered) - 1)]
