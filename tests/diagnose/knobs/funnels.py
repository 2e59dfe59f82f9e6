"""A world in which every size has a known price and a known worth, and a clock that only moves when stages work."""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.data import Candidates, HeldOut, Interactions, Query
from shortlist.grammar import Nominator, Pipeline, Scorer

N = 64  # items; user u wants item u % 64, so a nominator of the first so many finds that share of what is wanted
K = 4


class Watch:
    """A clock that only moves when a stage works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, eq=False, repr=False)
class First(Nominator):
    """Names the first items; a hundredth of a millisecond for each, for every request."""

    watch: Watch

    def nominate(self, query: Query) -> Candidates:
        width = min(self.limit, N)
        self.watch.now += 1e-5 * width * len(query)
        items = torch.arange(width).expand(len(query), width)
        return Candidates.of(items, -items.float())


@dataclass(frozen=True, eq=False, repr=False)
class Wise(Scorer):
    """Knows what everybody wants; `price` milliseconds for every candidate."""

    watch: Watch
    price: float

    def score(self, query: Query, found: Candidates) -> torch.Tensor:
        self.watch.now += 1e-3 * self.price * int(found.valid.sum())
        return (found.items == (query.user % N)[:, None]).float()


def cases(users: int = 2 * N) -> HeldOut:
    """One case per user: a history of one item, and one item that is wanted."""
    rows = np.repeat(np.arange(users), 2)
    items = np.stack([np.zeros(users, np.int64), np.arange(users) % N], axis=1).ravel()
    events = Interactions.of(rows, items, n_items=N)
    starts = np.arange(users) * 2
    return HeldOut(events, starts, starts + 1, starts + 2)


def funnel(watch: Watch, limit: int = 16, cut: int = 16) -> Pipeline:
    """Time of a request in ms: 0.01 limit + 0.01 limit + 0.5 min(cut, limit); recall: limit / 64."""
    pool, cheap, dear = (
        First(watch, name="first", limit=limit),
        Wise(watch, 0.01, name="pre"),
        Wise(watch, 0.5, name="rank"),
    )
    return pool >> cheap % cut >> dear % K
