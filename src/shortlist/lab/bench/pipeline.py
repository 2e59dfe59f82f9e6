"""The overhead of `run` beyond the stages' own work: pooling, cutting, tracing."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.evaluate.latency import one_thread
from shortlist.grammar import Filter, Nominator, Pipeline, Scorer, Selector, Top, as_pipeline
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import CoVisit, ModelNominator, Popular
from shortlist.pipeline import run
from shortlist.progress import Progress, silent
from shortlist.stages import Diverse, FeatureRanker, RankingFeatures, Seen, TowerScorer

ITEMS = 10_000
CANDIDATES = 500  # after the pool
BLOCK = 20  # requests in a block


@dataclass(frozen=True, eq=False, repr=False)
class ConstantNominator(Nominator):
    """Returns fixed candidates."""

    found: Candidates

    def nominate(self, query: Query) -> Candidates:
        return self.found


@dataclass(frozen=True, eq=False, repr=False)
class ConstantFilter(Filter):
    """Returns a fixed mask."""

    mask: Tensor

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return self.mask[:, : found.shape[1]]


@dataclass(frozen=True, eq=False, repr=False)
class ConstantScorer(Scorer):
    """Returns fixed scores."""

    numbers: Tensor

    def score(self, query: Query, found: Candidates) -> Tensor:
        return self.numbers[:, : found.shape[1]]


@dataclass(frozen=True, eq=False, repr=False)
class ConstantSelector(Selector):
    """Returns fixed positions."""

    places: Tensor

    def select(self, query: Query, found: Candidates) -> Tensor:
        return self.places


def bench_pipeline(seed: int = 0, requests: int = 300, progress: Progress = silent) -> Result:
    """A six-stage pipeline at one request and 500 candidates whose stages return constants.

    The remaining time is that of `run`. Its share is of a pipeline of the same shape with real stages.
    """
    began = start()
    with one_thread():
        overhead, whole = _measured(six_stages(seed), real_stages(seed), requests, progress)
        shares = [own / (total or 1.0) for own, total in zip(overhead, whole, strict=True)]
        rows = [row("run", "overhead_ms", overhead), row("real stages", "request_ms", whole)]
        rows.append(row("run", "overhead_share", shares))
        medians = {"overhead_ms": statistics.median(overhead), "overhead_share": statistics.median(shares)}
        claims = [at_most("overhead_ms", "foundation", medians["overhead_ms"], 1.0)]
        profile = f"B=1, K={CANDIDATES}, 6 stages"
        return result("pipeline", profile, [seed], began, rows, claims, figures=medians)


def _measured(
    idle: Pipeline, real: Pipeline, requests: int, progress: Progress
) -> tuple[list[float], list[float]]:
    """Milliseconds of `run` beyond the stages' own work, and of a real request, alternating."""
    query = Query.of([list(range(50))])
    own = _stages_alone(idle, query)
    overhead, whole = list[float](), list[float]()
    for number in range(-BLOCK, requests, BLOCK):  # short blocks: both sides see the same load
        overheads = [_timed(lambda: run(idle, query)) - _timed(own) for _ in range(BLOCK)]
        times = [_timed(lambda: run(real, query)) for _ in range(BLOCK)]
        if number >= 0:  # the first block is a warmup
            overhead += [seconds * 1e3 for seconds in overheads]
            whole += [seconds * 1e3 for seconds in times]
            progress("bench pipeline", number + BLOCK, requests)
    return overhead, whole


def real_stages(seed: int) -> Pipeline:
    """The same shape with real stages: co-visits, two towers, an MLP over features, diversity."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    category = torch.randint(0, 20, (ITEMS,), generator=generator)
    towers = TwoTower(TwoTowerConfig(ITEMS, n_categories=20)).with_categories(category).eval()
    order, counts = torch.randperm(ITEMS, generator=generator), torch.rand(ITEMS, generator=generator)
    neighbour = torch.randint(0, ITEMS, (ITEMS, 50), generator=generator)
    features = RankingFeatures(("popular", "covisit", "nearest"), counts, counts, category)
    network = FeatureMLP([len(features.names), 64, 32]).eval()
    vectors = torch.nn.functional.normalize(torch.randn(ITEMS, 32, generator=generator), dim=1)
    pool = (
        Popular(order, counts.sort(descending=True).values, name="popular") % 100
        + CoVisit(neighbour, torch.rand(ITEMS, 50, generator=generator), name="covisit") % 200
        + ModelNominator(towers, name="nearest") % 200
    )
    ranked = pool >> Seen(name="seen") >> TowerScorer(towers, name="prerank") % 200
    return as_pipeline(ranked >> FeatureRanker(features, network, name="rank") % 50 >> Diverse(vectors) % 10)


def six_stages(seed: int) -> Pipeline:
    """A pool of three, a filter, two scorers with cuts, a third scorer, a selector."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randperm(ITEMS, generator=generator)
    parts = [items[:200], items[100:350], items[350:500]]  # 500 distinct: two nominators share 100
    nominators = [
        ConstantNominator(
            Candidates.of(part[None], torch.linspace(1, 0, len(part))[None]),
            limit=len(part),
            name=f"n{number}",
        )
        for number, part in enumerate(parts)
    ]
    numbers = torch.randn(1, 1000, generator=generator)
    kept = torch.rand(1, 1000, generator=generator) > 0.05
    pool = nominators[0] + nominators[1] + nominators[2]
    stages = (
        pool
        >> ConstantFilter(kept, name="filter")
        >> ConstantScorer(numbers, name="prerank") % 200
        >> ConstantScorer(numbers, name="rank") % 50
    )
    return as_pipeline(
        stages
        >> ConstantScorer(numbers, name="calibrate")
        >> ConstantSelector(torch.arange(10)[None], name="select") % 10
    )


def _stages_alone(pipeline: Pipeline, query: Query) -> Callable[[], None]:
    """The stages' own work, without `run`."""
    found = Candidates.none(1)
    inner = [stage.inner if isinstance(stage, Top) else stage for stage in pipeline.stages[1:]]

    def call() -> None:
        for stage in (*pipeline.nominators, *inner):
            if isinstance(stage, ConstantNominator):
                stage.nominate(query)
            elif isinstance(stage, ConstantFilter):
                stage.keep(query, found)
            elif isinstance(stage, ConstantScorer):
                stage.score(query, found)
            elif isinstance(stage, ConstantSelector):
                stage.select(query, found)

    return call


def _timed(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began
