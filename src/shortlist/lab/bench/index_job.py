"""The whole catalogue ranked for all users and judged, as a process of its own so that its peak memory is its own."""

import json
import sys
import time

import numpy as np
import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions, leave_last_out
from shortlist.data.membership import is_in
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.models.model import ModelConfig, VectorModel

WIDTH, K = 64, 100
EVENTS = 32  # of a user, the last one held out


class Mean(VectorModel):
    """A user is the mean of what was met; made of vectors by chance."""

    def __init__(self, items: int, seed: int) -> None:
        super().__init__(ModelConfig(items, max_history=EVENTS))
        generator = torch.Generator().manual_seed(seed)
        self.register_buffer("table", torch.randn(items, WIDTH, generator=generator))
        self.table: Tensor

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = self.read(history)
        there = (history >= 0)[..., None]
        return (self.table[history.clamp(min=0)] * there).sum(1) / there.sum(1).clamp(min=1)

    def vectors(self) -> Tensor:
        return self.table


def some_cases(users: int, items: int, seed: int) -> HeldOut:
    """Users who met items by chance, some far more often than others; the last of each is held out."""
    rng = np.random.default_rng(seed)
    met = (items * rng.random(users * EVENTS) ** 2).astype(np.int64)
    return leave_last_out(Interactions.of(np.repeat(np.arange(users), EVENTS), met, n_items=items)).test


def ranked(users: int, items: int, seed: int) -> dict[str, float]:
    """The best items of every user, all metrics of them with intervals, and what that took."""
    cases, model = some_cases(users, items, seed), Mean(items, seed)
    began, before = time.perf_counter(), peak_bytes()
    best = rank_model(model, cases, K)
    popularity, people = torch.from_numpy(cases.events.popularity.copy()), len(cases)
    told = score_slates(best, cases.relevant(), (10, 20), popularity, people).summary(seed)
    seconds = time.perf_counter() - began
    some = slice(0, 1000)
    met = is_in(best[some], cases.query(some, width=EVENTS).history).any()
    return {
        "cases": len(cases),
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "start_bytes": before,
        "peak_bytes": peak_bytes(),
        "met_again": float(met),
        "recall": told.metrics["recall@20"].mean,
    }


def main(users: str, items: str, seed: str) -> None:
    """Rank and tell of it as JSON."""
    sys.stdout.write(json.dumps(ranked(int(users), int(items), int(seed))))


if __name__ == "__main__":
    main(*sys.argv[1:])
