"""Slates with some nominators only: nominations are stored once, and later stages run for every set of nominators."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import torch

from shortlist.data import Candidates
from shortlist.diagnose.knobs.rewritten import Silent
from shortlist.diagnose.sample import UserSample, count_hits
from shortlist.diagnose.what_if import run_stages
from shortlist.evaluate.losses import Ints
from shortlist.grammar import Pipeline, Pool, Stage, Top, bare
from shortlist.metrics.estimate import Estimate, Floats
from shortlist.metrics.nomination.attribution import shapley_sampled
from shortlist.metrics.nomination.coverage import Bools

EXACT = 5  # nominators whose sets are all run; with more, orders are sampled


@dataclass(frozen=True, eq=False)
class PoolReplay:
    """A pipeline on a sample, with the nominations of every part of its pool."""

    pipeline: Pipeline
    sample: UserSample
    nominated: tuple[tuple[Candidates, ...], ...]  # of every batch, by part

    @classmethod
    @torch.no_grad()
    def of(cls, pipeline: Pipeline, sample: UserSample) -> "PoolReplay":
        """Ask every nominator once."""
        batches = []
        for batch in sample.batches:
            none = Candidates.none(len(batch.query), batch.query.history.device)
            batches.append(tuple(part(batch.query, none) for part in pipeline.nominators))
        return cls(pipeline, sample, tuple(batches))

    @torch.no_grad()
    def hits(self, present: Bools) -> Ints:
        """Relevant items returned to each request [C] when only these nominators [N] nominate."""
        first, *later = self.pipeline.stages
        pool = bare(first)
        assert isinstance(pool, Pool)
        pairs = list(zip(pool.parts, present.tolist(), strict=True))
        reduced = Pool(
            tuple(part if here else Silent(name=part.title) for part, here in pairs), name=pool.name
        )
        found = []
        for batch, own in zip(self.sample.batches, self.nominated, strict=True):
            none = Candidates.none(len(batch.query), batch.query.history.device)
            kept = [one if here else none for one, here in zip(own, present.tolist(), strict=True)]
            pooled = _cut(first, reduced.pooled(batch.query, kept))
            found.append(count_hits(run_stages(later, batch.query, pooled), batch.relevant))
        return np.concatenate(found)


def _cut(stage: Stage, found: Candidates) -> Candidates:
    """Candidates after the cuts around a pool."""
    return _cut(stage.inner, found).best(stage.k) if isinstance(stage, Top) else found


def shapley_of_slates(replay: PoolReplay, permutations: int = 200) -> tuple[Estimate, ...]:
    """Shapley values of the recall of slates, which is no coverage: nominators also displace each other's items.

    Up to 5 nominators all sets are run, and intervals are over users. With more, orders are sampled and there is no
    interval.
    """
    sample, count = replay.sample, len(replay.pipeline.nominators)
    if count > EXACT:

        def value(present: Bools) -> float:
            return sample.recall(replay.hits(present)).mean or 0.0

        sampled = shapley_sampled(value, count, permutations, seed=sample.seed)
        return tuple(Estimate(float(one)) for one in sampled.values)
    return tuple(sample.recall(one) for one in exact_shapley(replay.hits, count).T)


def exact_shapley(value: Callable[[Bools], Ints], count: int) -> Floats:
    """Shapley values of every request [C, N] from the values [C] of all sets of nominators."""
    sets = [frozenset(one) for size in range(count + 1) for one in combinations(range(count), size)]
    values = {one: value(np.isin(np.arange(count), list(one))) for one in sets}
    found = []
    for number in range(count):
        parts = [
            (values[one | {number}] - values[one]) / (count * comb(count - 1, len(one)))
            for one in sets
            if number not in one
        ]
        found.append(np.sum(parts, axis=0))
    return np.stack(found, axis=1)
