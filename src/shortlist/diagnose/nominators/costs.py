"""Milliseconds of every nominator for single requests, at its limit and with a longer list."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from shortlist.data import Candidates, Query, merge
from shortlist.diagnose.nominators.lists import deeper, limit_of
from shortlist.diagnose.nominators.report import NominatorCost
from shortlist.evaluate.latency import TAIL, WARMUP, Clock, one_thread
from shortlist.grammar import Pipeline, Stage
from shortlist.pipeline import run
from shortlist.progress import Progress, silent

TRIES = 2  # of every request; the faster one counts, which filters out most other work on the machine
LONGER = 4  # times the limit
REQUESTS = 40
SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class RequestTimes:
    """The costs of all nominators, and the 95th percentile of whole requests in milliseconds if it was asked for."""

    costs: tuple[NominatorCost, ...]
    p95_ms: float | None

    @property
    def nominators_ms(self) -> float:
        """All nominators at their current limits."""
        return sum(one.ms for one in self.costs)


@torch.no_grad()
def measure_costs(
    pipeline: Pipeline,
    queries: Sequence[Query],
    whole: bool = False,
    requests: int = REQUESTS,
    seconds: float = SECONDS,
    clock: Clock = perf_counter,
    progress: Progress = silent,
) -> RequestTimes:
    """Time single requests on one thread, until `seconds` are over but once at least; first requests do not count.

    With `whole`, whole requests are timed too.
    """
    parts = pipeline.nominators
    limits = [limit_of(part) or 0 for part in parts]
    longer = [
        deeper(part, LONGER * limit) if limit else None for part, limit in zip(parts, limits, strict=True)
    ]
    rows: list[list[float]] = []
    began = clock()
    with one_thread():
        for turn in range(-WARMUP, requests):
            if turn > 0 and clock() - began > seconds:
                break
            query = queries[turn % len(queries)]
            tries = [_request(pipeline, longer, query, whole, clock) for _ in range(TRIES)]
            if turn >= 0:
                rows.append(np.min(tries, axis=0).tolist())
            progress("time: nominators", max(turn + 1, 0), requests)
    progress("time: nominators", requests, requests)
    median = np.median(rows, axis=0)
    costs = zip(*median[:-1].reshape(3, -1).tolist(), limits, strict=True)
    p95 = float(np.quantile(np.array(rows)[:, -1], TAIL, method="higher")) if whole else None
    return RequestTimes(tuple(_cost(*one) for one in costs), p95)


def _request(
    pipeline: Pipeline, longer: Sequence[Stage | None], query: Query, whole: bool, clock: Clock
) -> list[float]:
    """Milliseconds of all nominators, of their scores of the pool, of longer lists, and of the whole request."""
    none, parts = Candidates.none(len(query), query.history.device), pipeline.nominators
    times = [_timed(part, query, none, clock) for part in parts]
    pool = merge([found for _, found in times], [part.title for part in parts])
    scored = [_timed(part.pool_scores(part.title), query, pool, clock) for part in parts]
    long = [_timed(part, query, none, clock) for part in longer]
    began = clock()
    if whole:
        run(pipeline, query)
    return [*(ms for ms, _ in (*times, *scored, *long)), (clock() - began) * 1e3]


def _timed(stage: Stage | None, query: Query, found: Candidates, clock: Clock) -> tuple[float, Candidates]:
    """Milliseconds of a stage, 0 without one, and what it returns."""
    if stage is None:
        return 0.0, found
    began = clock()
    after = stage(query, found)
    return (clock() - began) * 1e3, after


def _cost(nominate: float, score: float, long: float, limit: int) -> NominatorCost:
    """A line through both limits; a search that is not slower with more slots has a flat one."""
    slot = max(long - nominate, 0.0) / ((LONGER - 1) * limit) if limit and long else 0.0
    slot = min(slot, nominate / limit) if limit else 0.0
    ms = nominate + score
    return NominatorCost(ms, ms - slot * limit, slot)
