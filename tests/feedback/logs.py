"""Funnels with known answers, their traces and metas, for tests of the log."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Candidates, Query, Vocabulary
from shortlist.feedback.write.from_trace import RequestMeta, request_id
from shortlist.feedback.write.sampling import EVERYTHING, Sampling
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from shortlist.grammar import Pipeline, Scorer, as_pipeline
from shortlist.pipeline import Trace, run
from tests.worlds import listed

START = 1_700_000_000_000  # 22:13:20 UTC


@dataclass(frozen=True, eq=False, repr=False)
class Ordered(Scorer):
    """Distinct scores: a random permutation of the items, another one for every request."""

    n_items: int = 0
    salt: int = 0

    def score(self, query: Query, found: Candidates) -> Tensor:
        rows = []
        for seed in query.seed.tolist():
            order = torch.randperm(self.n_items, generator=torch.Generator().manual_seed(seed + self.salt))
            rows.append(order.float())
        return torch.stack(rows).gather(1, found.items.clamp(min=0))


def funnel(*capacities: int) -> Pipeline:
    """Retrieval of the first capacity from two nominators that share a third, then scorers with the other cuts."""
    first, *rest = capacities
    share = 2 * first // 3
    pool = listed("left", range(share), limit=first) + listed(
        "right", range(first - share, first), limit=first
    )
    made = pool
    for number, capacity in enumerate(rest):
        made = made >> Ordered(first, number, name=f"stage{number + 2}") % capacity
    return as_pipeline(made)


def meta_of(
    trace: Trace, start: int = START, step: int = 1000, first: int = 0, **more: object
) -> RequestMeta:
    """Requests one after the other, `step` milliseconds apart."""
    times = [start + (first + row) * step for row in range(len(trace.query))]
    ids = [request_id(ts, 0, first + row) for row, ts in enumerate(times)]
    users = [row % 5 for row in range(len(times))]
    return RequestMeta(ids, times, users, **more)


def traces(pipeline: Pipeline, count: int, size: int = 1) -> list[Trace]:
    """`count` runs of `size` requests with different seeds."""
    seeds = np.arange(count * size).reshape(count, size).tolist()
    return [run(pipeline, Query.of([[]] * size, seeds=row)).trace for row in seeds]


def write_log(
    root: Path,
    runs: Sequence[Trace],
    sampling: Sampling = EVERYTHING,
    step: int = 1000,
    items: Vocabulary | None = None,
    settings: LogSettings | None = None,
    **options: object,
) -> FullStageLogger:
    """A closed log of these traces."""
    widest = max(int(trace.nominated.items.max()) for trace in runs) + 1
    vocabulary = items or Vocabulary.of(range(widest))
    settings = settings or LogSettings(queue=4096)
    with FullStageLogger(root, vocabulary, settings=settings, sampling=sampling, **options) as log:
        first = 0
        for trace in runs:
            assert log.offer(trace, meta_of(trace, step=step, first=first))
            first += len(trace.query)
    return log
