"""A log of random requests with feedback, of any size in bounded memory."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shortlist.data import Candidates, Query, Vocabulary
from shortlist.feedback.events.append import append_events
from shortlist.feedback.write.from_trace import RequestMeta, request_id
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from shortlist.grammar import Nominator, Pipeline, Scorer, as_pipeline
from shortlist.pipeline import Trace, run
from shortlist.progress import Progress, silent

ITEMS, USERS = 100_000, 5000
NOMINATED = (200, 120)
CUTS = (60, 15, 6)
BATCH = 500  # requests of a trace
PLAYED = 0.3  # of the shown items
STEP_MS = 86  # between requests: a million of them in a day
START_MS = 1_699_920_000_000  # midnight
EVENT_BATCHES = 80  # traces whose events are one part


@dataclass(frozen=True, eq=False, repr=False)
class RandomItems(Nominator):
    """Random items with random scores."""

    salt: int = 0

    def nominate(self, query: Query) -> Candidates:
        drawn = _generator(query, self.salt)
        items = torch.randint(0, ITEMS, (len(query), self.limit), generator=drawn)
        return Candidates.of(items, torch.rand(items.shape, generator=drawn).sort(1, descending=True).values)


@dataclass(frozen=True, eq=False, repr=False)
class RandomScores(Scorer):
    """Random scores."""

    salt: int = 0

    def score(self, query: Query, found: Candidates) -> Tensor:
        return torch.randn(found.items.shape, generator=_generator(query, self.salt))


def random_funnel() -> Pipeline:
    """Two nominators and three scorers with cuts."""
    pool = RandomItems(name="n0", limit=NOMINATED[0]) + RandomItems(salt=1, name="n1", limit=NOMINATED[1])
    stages = pool
    for number, k in enumerate(CUTS):
        stages = stages >> RandomScores(salt=2 + number, name=f"s{number}") % k  # type: ignore[assignment]
    return as_pipeline(stages)


def write_simulated(root: Path, requests: int, seed: int = 0, progress: Progress = silent) -> None:
    """Requests of one day with an impression of every served item and a play of some."""
    pipeline, waiting = random_funnel(), list[pa.Table]()
    items, users = Vocabulary.of(range(ITEMS)), Vocabulary.of(range(USERS))
    with FullStageLogger(root, items, users, LogSettings(queue=8)) as log:
        for first in range(0, requests, BATCH):
            numbers = np.arange(first, min(first + BATCH, requests))
            times = START_MS + numbers * STEP_MS
            ids = [
                request_id(ts, 0, number) for ts, number in zip(times.tolist(), numbers.tolist(), strict=True)
            ]
            trace = run(pipeline, Query.of([[]] * len(ids), seeds=(seed * requests + numbers).tolist())).trace
            log.put(trace, RequestMeta(ids, times.tolist(), (numbers % USERS).tolist()))
            waiting.append(_events(trace, np.array(ids), times, seed + first))
            if len(waiting) == EVENT_BATCHES or numbers[-1] == requests - 1:
                append_events(root, pa.concat_tables(waiting))
                waiting = []
            progress("write log", int(numbers[-1]) + 1, requests)


def _events(trace: Trace, ids: np.ndarray, times: np.ndarray, seed: int) -> pa.Table:
    rng = np.random.default_rng([seed, 45])
    slate = trace.steps[-1].after
    row, place = np.nonzero(slate.valid.numpy())
    items, when = slate.items.numpy()[row, place], times[row] + 500
    played = rng.random(len(row)) < PLAYED
    both = np.concatenate([np.arange(len(row)), np.flatnonzero(played)])
    after = np.concatenate([np.zeros(len(row), np.int64), rng.integers(500, 600_000, int(played.sum()))])
    return pa.table(
        {
            "request_id": ids[row][both],
            "item_id": items[both],
            "event": np.repeat(np.array([0, 1], np.int8), [len(row), played.sum()]),
            "event_ts_ms": when[both] + after,
            "value": (after / 20).astype(np.float32),
            "ingest_ts_ms": when[both] + after,
        }
    )


def _generator(query: Query, salt: int) -> torch.Generator:
    return torch.Generator().manual_seed(int(query.seed[0]) * 8 + salt)
