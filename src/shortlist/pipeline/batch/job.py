"""The slates of many users, computed in parts of bounded size by several threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import UNKNOWN, Query
from shortlist.grammar import Pipeline
from shortlist.pipeline.batch.rows import MAX_NOMINATORS, in_order, slate_rows
from shortlist.pipeline.batch.users import Users
from shortlist.pipeline.live.states import with_vectors
from shortlist.pipeline.request_seeds import request_seeds
from shortlist.pipeline.run import Slate, run
from shortlist.state import UserHistories, UserStates

PART = 4096  # users whose slates are computed, stored and written together
BATCH = 128  # users scored together
CELLS = 1 << 20  # history items of a batch: users with long histories are scored in smaller ones

Places = NDArray[np.int64]
Observer = Callable[
    [Pipeline, Slate, list[int | str | None]], None
]  # a batch: its slates and the ids of its users


@dataclass(frozen=True, eq=False)
class BatchJob:
    """A pipeline and the users it answers. The slate of a user is the one of a single request."""

    pipeline: Pipeline  # without time limits: they are meant for single requests
    histories: UserHistories
    users: Users
    time: int  # of all requests
    seed: int  # of all requests; draws differ by user
    observe: Observer | None = None  # called once per answered batch, from several threads
    version: str | None = None  # of the vectors of the states
    states: UserStates | None = None  # they give the vectors of live users, for a model of the pipeline
    live: NDArray[np.bool_] | None = None  # whether users [U] are live; None: nobody is

    @property
    def nominators(self) -> tuple[str, ...]:
        """The names of the nominators that the rows of a slate can hold."""
        return tuple(part.title for part in self.pipeline.nominators)[:MAX_NOMINATORS]

    @property
    def parts(self) -> list[Places]:
        """The places of the users of every part."""
        return [np.arange(at, min(at + PART, len(self.users))) for at in range(0, len(self.users), PART)]

    def rows(self, parts: Sequence[Places]) -> Iterator[pa.RecordBatch]:
        """The rows of some parts in turn; the next part is computed while the caller uses this one."""
        with workers() as pool:
            ahead: list[list[Future[pa.RecordBatch]]] = []
            for places in parts:
                ahead.append([pool.submit(self.batch_rows, batch) for batch in self.batches(places)])
                if len(ahead) > 1:
                    yield in_order([one.result() for one in ahead.pop(0)])
            for last in ahead:
                yield in_order([one.result() for one in last])

    def batches(self, places: Places) -> Iterator[Places]:
        """Users with histories of similar length together, so that little is padded; longest first."""
        lengths = _lengths(self.histories, torch.from_numpy(self.users.rows[places])).numpy()
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            longest = int(lengths[order[start]])
            stop = start + min(BATCH, max(CELLS // max(longest, 1), 1))
            yield places[order[start:stop]]
            start = stop

    def batch_rows(self, places: Places) -> pa.RecordBatch:
        """The rows of one batch. Where a stage fails, every user is answered alone, as in single requests."""
        slate = self.slate(places)
        if slate.trace.degraded and len(places) > 1:
            return in_order([self.batch_rows(places[at : at + 1]) for at in range(len(places))])
        if self.observe is not None:
            self.observe(self.pipeline, slate, self.ids(places))
        return slate_rows(slate, places, self.nominators)

    def ids(self, places: Places) -> list[int | str | None]:
        """The ids of the users at these places."""
        found: list[int | str | None] = self.users.ids.take(pa.array(places)).to_pylist()
        return found

    @torch.no_grad()
    def slate(self, places: Places) -> Slate:
        """The slates of one batch."""
        rows = torch.from_numpy(self.users.rows[places])
        ids = self.ids(places)
        seeds = torch.tensor(request_seeds([self.seed] * len(ids), ids), dtype=torch.int64)
        times = torch.full_like(rows, self.time)
        query = Query(rows, _padded(self.histories, rows), times, seeds)
        return run(self.pipeline, self._with_vectors(query, places, ids))

    def _with_vectors(self, query: Query, places: Places, ids: Sequence[int | str | None]) -> Query:
        """The query with the vectors of its live users, as in single requests: these may be rounded or promoted."""
        if self.states is None or self.live is None:
            return query
        live = self.live[places].tolist()
        return with_vectors(
            query,
            self.states,
            [user if one else None for user, one in zip(ids, live, strict=True)],
            self.version,
        )


def _lengths(histories: UserHistories, users: Tensor) -> Tensor:
    """The number of items in the histories of these users [B]; 0 for an unknown one."""
    return (
        histories.starts[users + 1] - histories.starts[users.clamp(min=0)]
    )  # -1 ends at starts[0], which is 0


def _padded(histories: UserHistories, users: Tensor) -> Tensor:
    """The histories of these users [B, H], padded on the left with -1."""
    lengths = _lengths(histories, users)
    width = max(int(lengths.max()), 1)
    back = torch.arange(width, 0, -1)  # [H] steps back from the end
    at, inside = histories.starts[users + 1][:, None] - back, back <= lengths[:, None]
    padded = torch.full(inside.shape, UNKNOWN)
    padded[inside] = histories.items[at[inside]].long()
    return padded


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """As many workers as torch has threads, each with one thread for arithmetic.

    Batches side by side use the cores better than threads inside every operation. OpenMP keeps the number per thread.
    """
    pool = ThreadPoolExecutor(
        torch.get_num_threads(), thread_name_prefix="batch", initializer=partial(torch.set_num_threads, 1)
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
