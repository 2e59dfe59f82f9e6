"""A funnel whose sizes have a known latency and recall, and a clock that only moves when stages work."""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.data import Candidates, HeldOut, Interactions, Query
from shortlist.grammar import Nominator, Pipeline, Scorer
from tests.evaluate.test_latency import FakeClock

N = 64  # items; item u % 64 is relevant for user u, so the first n items have a recall of n / 64
K = 4


@dataclass(frozen=True, eq=False, repr=False)
class First(Nominator):
    """Nominates the first items; 0.01 ms for each, per request."""

    clock: FakeClock

    def nominate(self, query: Query) -> Candidates:
        width = min(self.limit, N)
        self.clock.now += 1e-5 * width * len(query)
        items = torch.arange(width).expand(len(query), width)
        return Candidates.of(items, -items.float())


@dataclass(frozen=True, eq=False, repr=False)
class Perfect(Scorer):
    """Scores relevant items highest; `ms` milliseconds per candidate."""

    clock: FakeClock
    ms: float

    def score(self, query: Query, found: Candidates) -> torch.Tensor:
        self.clock.now += 1e-3 * self.ms * int(found.valid.sum())
        return (found.items == (query.user % N)[:, None]).float()


def held_out(users: int = 2 * N) -> HeldOut:
    """One request per user: a history of one item, and one relevant item."""
    rows = np.repeat(np.arange(users), 2)
    items = np.stack([np.zeros(users, np.int64), np.arange(users) % N], axis=1).ravel()
    events = Interactions.of(rows, items, n_items=N)
    starts = np.arange(users) * 2
    return HeldOut(events, starts, starts + 1, starts + 2)


def funnel(clock: FakeClock, limit: int = 16, cut: int = 16) -> Pipeline:
    """Latency of a request in ms: 0.01 limit + 0.01 limit + 0.5 min(cut, limit); recall: limit / 64."""
    pool, cheap, costly = (
        First(clock, name="first", limit=limit),
        Perfect(clock, 0.01, name="pre"),
        Perfect(clock, 0.5, name="rank"),
    )
    return pool >> cheap % cut >> costly % K
