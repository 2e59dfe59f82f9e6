"""Requests of a simulated service: run, logged by the real writer, and answered by feedback from the world."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from shortlist.data import Query
from shortlist.feedback.events.append import append_events
from shortlist.feedback.write.from_trace import request_id
from shortlist.feedback.write.policy import request_meta
from shortlist.feedback.write.sampling import Sampling
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from shortlist.grammar import Pipeline
from shortlist.pipeline import Recommender, Request, Trace, run
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.cell_noise import cell_uniforms
from shortlist.simulate.full_stage.logged.settings import SimulationSettings
from shortlist.simulate.full_stage.logged.world import DAY_MS, ServedWorld

BATCH = 64  # requests of a trace
EVENT_ROWS = 200_000  # of a part of events
LIKED, SHOWN = 42, 43  # streams of the cell noise
DELAY_MS = 2000  # from one place of a slate to the next

Queries = Callable[[NDArray[np.int64], NDArray[np.int64]], Query]  # rows of users [B] and seeds [B]


@dataclass(frozen=True)
class SimulatedLog:
    """What a simulation wrote."""

    requests: int
    candidates: int  # nominated ones, of which the log has a sample
    impressions: int
    positives: int


@dataclass
class _Events:
    """Events that are not in the log yet."""

    root: Path
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.rows += len(table)
        if self.rows >= EVENT_ROWS:
            self.write()

    def write(self) -> None:
        """Append all of them to the log."""
        if self.tables:
            append_events(self.root, pa.concat_tables(self.tables), writer="events")
        self.tables, self.rows = [], 0


def bundle_queries(served: Recommender) -> Queries:
    """Requests of stored users, as the service builds them."""

    def query(users: NDArray[np.int64], seeds: NDArray[np.int64]) -> Query:
        pairs = zip(users.tolist(), seeds.tolist(), strict=True)
        return served.query([Request(user=served.users.id(user), seed=seed) for user, seed in pairs])

    return query


def simulate_requests(
    world: ServedWorld,
    pipeline: Pipeline,
    root: Path,
    settings: SimulationSettings,
    log_settings: LogSettings | None = None,
    sampling: Sampling | None = None,
    version: str = "",
    queries: Queries | None = None,
    progress: Progress = silent,
) -> SimulatedLog:
    """Write a log of requests and events into the folder `root`; memory does not grow with their number.

    `queries` builds the requests of a pipeline with its own users; `version` is that of its bundle.
    """
    events, sums, data = _Events(root), np.zeros(4, np.int64), world.data
    with FullStageLogger(root, data.items, data.users, log_settings, sampling) as log:
        for numbers in _batches(settings.requests):
            users, seeds = _users(world, numbers)
            trace = run(pipeline, (queries or _query)(users, seeds)).trace
            times = world.start_ms + (numbers * (settings.days * DAY_MS / settings.requests)).astype(np.int64)
            ids = np.array([request_id(int(ts), 0, int(n)) for ts, n in zip(times, numbers, strict=True)])
            names = data.users.ids.take(pa.array(users)).to_pylist()
            log.put(trace, request_meta(pipeline, version, ids.tolist(), times.tolist(), names))
            table, counts = feedback(world, settings, trace, numbers, users, ids, times)
            events.add(table)
            sums += [len(numbers), int(trace.steps[0].entered.sum()), *counts]
            progress("requests", int(sums[0]), settings.requests)
        events.write()
    return SimulatedLog(*sums.tolist())


def feedback(
    world: ServedWorld,
    settings: SimulationSettings,
    trace: Trace,
    numbers: NDArray[np.int64],
    users: NDArray[np.int64],
    ids: NDArray[np.int64],
    times: NDArray[np.int64],
) -> tuple[pa.Table, tuple[int, int]]:
    """Impressions of the shown items and plays of the liked ones, and the numbers of both.

    Each is drawn once per request and item: shown with probability `views`, liked with the utility.
    """
    slate = trace.steps[-1].after
    items, valid = slate.items.clamp(min=0).numpy(), slate.valid.numpy()
    shown = valid & (cell_uniforms(world.seed, SHOWN, numbers, items) < settings.views)
    liked = shown & (cell_uniforms(world.seed, LIKED, numbers, items) < world.utility(users, items))
    length = np.zeros(world.n_items) if world.duration_ms is None else world.duration_ms
    tables = []
    for event, happened, value in (("impression", shown, np.zeros(world.n_items)), ("play", liked, length)):
        row, place = np.nonzero(happened)
        when = times[row] + DELAY_MS * (place + 1) + (event == "play") * DELAY_MS // 2
        tables.append(_table(ids[row], world, items[row, place], event, when, value))
    return pa.concat_tables(tables), (int(shown.sum()), int(liked.sum()))


def _table(
    ids: NDArray[np.int64],
    world: ServedWorld,
    items: NDArray[np.int64],
    event: str,
    when: NDArray[np.int64],
    value: NDArray[np.float64],
) -> pa.Table:
    columns: dict[str, Any] = {
        "request_id": ids,
        "item_id": world.data.items.ids.take(pa.array(items)),
        "event": pa.array([event] * len(ids), pa.string()),
        "event_ts_ms": when,
        "value": value[items].astype(np.float32),
        "ingest_ts_ms": when,
    }
    return pa.table(columns)


def _batches(requests: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, requests, BATCH):
        yield np.arange(start, min(start + BATCH, requests))


def _users(world: ServedWorld, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The user and the seed of each request."""
    rng = np.random.default_rng([world.seed, 44, int(numbers[0])])
    return rng.integers(world.n_users, size=len(numbers)), rng.integers(1 << 62, size=len(numbers))


def _query(users: NDArray[np.int64], seeds: NDArray[np.int64]) -> Query:
    empty = torch.full((len(users), 1), -1)
    return Query(
        torch.from_numpy(users), empty, torch.zeros(len(users), dtype=torch.int64), torch.from_numpy(seeds)
    )
