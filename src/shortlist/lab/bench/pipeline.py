"""What `run` costs beyond the work of the stages themselves: pooling, cutting, keeping the account."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.grammar import Filter, Nominator, Pipeline, Scorer, Selector, Top, as_pipeline
from shortlist.lab.result import at_most, result, row, start
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.sequence.two_tower import TowerConfig, TwoTower
from shortlist.nominate import CoVisit, Nearest, Popular
from shortlist.pipeline import run
from shortlist.progress import Progress, silent
from shortlist.stages import Diverse, FeatureRanker, Features, Seen, TowerScorer

ITEMS = 10_000
FIELD = 500  # candidates after the pool
WARM = 20  # turns in a block


@dataclass(frozen=True, eq=False, repr=False)
class Given(Nominator):
    """Names items it was given: no work at all."""

    found: Candidates

    def nominate(self, query: Query) -> Candidates:
        return self.found


@dataclass(frozen=True, eq=False, repr=False)
class Spared(Filter):
    """Says what it was given to say."""

    verdict: Tensor

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return self.verdict[:, : found.shape[1]]


@dataclass(frozen=True, eq=False, repr=False)
class Told(Scorer):
    """Scores as it was told."""

    numbers: Tensor

    def score(self, query: Query, found: Candidates) -> Tensor:
        return self.numbers[:, : found.shape[1]]


@dataclass(frozen=True, eq=False, repr=False)
class Fixed(Selector):
    """Chooses the places it was given."""

    places: Tensor

    def select(self, query: Query, found: Candidates) -> Tensor:
        return self.places


def bench_pipeline(seed: int = 0, turns: int = 300, progress: Progress = silent) -> dict[str, Any]:
    """A six-stage pipeline at one request and 500 candidates whose stages answer from memory.

    All time that is left is `run`'s own. Its share is of a pipeline of the same shape whose stages do real work.
    """
    began = start()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        overhead, whole = _measured(six_stages(seed), real_stages(seed), turns, progress)
    finally:
        torch.set_num_threads(threads)
    shares = [own / (all_of_it or 1.0) for own, all_of_it in zip(overhead, whole, strict=True)]
    rows = [row("run", "overhead_ms", overhead), row("real stages", "request_ms", whole)]
    rows.append(row("run", "overhead_share", shares))
    middle = {"overhead_ms": statistics.median(overhead), "overhead_share": statistics.median(shares)}
    claims = [at_most("overhead_ms", "foundation", middle["overhead_ms"], 1.0)]
    told = result("pipeline", f"B=1, K={FIELD}, 6 stages", [seed], began, rows, claims)
    return {**told, **middle}


def _measured(
    idle: Pipeline, real: Pipeline, turns: int, progress: Progress
) -> tuple[list[float], list[float]]:
    """Milliseconds of `run` beyond the stages' own work, and of a real request, taking turns."""
    query = Query.of([list(range(50))])
    own = _stages_alone(idle, query)
    overhead, whole = list[float](), list[float]()
    for turn in range(-WARM, turns, WARM):  # in short blocks, so that both see the same weather
        arounds = [_timed(lambda: run(idle, query)) - _timed(own) for _ in range(WARM)]
        requests = [_timed(lambda: run(real, query)) for _ in range(WARM)]
        if turn >= 0:  # the first block warms up
            overhead += [around * 1e3 for around in arounds]
            whole += [request * 1e3 for request in requests]
            progress("bench pipeline", turn + WARM, turns)
    return overhead, whole


def real_stages(seed: int) -> Pipeline:
    """The same shape with working stages: co-visits, two towers, a network over features, diversity."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    category = torch.randint(0, 20, (ITEMS,), generator=generator)
    towers = TwoTower(TowerConfig(ITEMS, 20), category).eval()
    order, counts = torch.randperm(ITEMS, generator=generator), torch.rand(ITEMS, generator=generator)
    neighbour = torch.randint(0, ITEMS, (ITEMS, 50), generator=generator)
    features = Features(("popular", "covisit", "nearest"), counts, counts, category)
    network = FeatureMLP([len(features.names), 64, 32]).eval()
    vectors = torch.nn.functional.normalize(torch.randn(ITEMS, 32, generator=generator), dim=1)
    pool = (
        Popular(order, counts.sort(descending=True).values, name="popular") % 100
        + CoVisit(neighbour, torch.rand(ITEMS, 50, generator=generator), name="covisit") % 200
        + Nearest(towers, name="nearest") % 200
    )
    ranked = pool >> Seen(name="seen") >> TowerScorer(towers, name="prerank") % 200
    return as_pipeline(ranked >> FeatureRanker(features, network, name="rank") % 50 >> Diverse(vectors) % 10)


def six_stages(seed: int) -> Pipeline:
    """A pool of three, a filter, two scorers with cuts, a third scorer, a selector."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randperm(ITEMS, generator=generator)
    parts = [items[:200], items[100:350], items[350:500]]  # 500 distinct: two nominators agree on 100
    given = [
        Given(
            Candidates.of(part[None], torch.linspace(1, 0, len(part))[None]),
            limit=len(part),
            name=f"n{number}",
        )
        for number, part in enumerate(parts)
    ]
    numbers = torch.randn(1, 1000, generator=generator)
    kept = torch.rand(1, 1000, generator=generator) > 0.05
    pool = given[0] + given[1] + given[2]
    stages = (
        pool
        >> Spared(kept, name="filter")
        >> Told(numbers, name="prerank") % 200
        >> Told(numbers, name="rank") % 50
    )
    return as_pipeline(
        stages >> Told(numbers, name="calibrate") >> Fixed(torch.arange(10)[None], name="select") % 10
    )


def _stages_alone(pipeline: Pipeline, query: Query) -> Callable[[], None]:
    """The stages' own work, without anything around it."""
    found = Candidates.none(1)
    inner = [stage.inner if isinstance(stage, Top) else stage for stage in pipeline.stages[1:]]

    def call() -> None:
        for stage in (*pipeline.nominators, *inner):
            if isinstance(stage, Given):
                stage.nominate(query)
            elif isinstance(stage, Spared):
                stage.keep(query, found)
            elif isinstance(stage, Told):
                stage.score(query, found)
            elif isinstance(stage, Fixed):
                stage.select(query, found)

    return call


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
