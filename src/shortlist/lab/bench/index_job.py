"""Ranking and evaluation of the whole catalogue for all users, in a separate process to measure its peak memory."""

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
    """A user is the mean of the history's vectors, which are random."""

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


def held_out_users(users: int, items: int, seed: int) -> HeldOut:
    """Users with random histories of a skewed item distribution; the last item of each is held out."""
    rng = np.random.default_rng(seed)
    history = (items * rng.random(users * EVENTS) ** 2).astype(np.int64)
    return leave_last_out(Interactions.of(np.repeat(np.arange(users), EVENTS), history, n_items=items)).test


def ranked(users: int, items: int, seed: int) -> dict[str, float]:
    """The top k of every user, all metrics with intervals, and the time and memory for that."""
    held_out, model = held_out_users(users, items, seed), Mean(items, seed)
    began, before = time.perf_counter(), peak_bytes()
    best = rank_model(model, held_out, K)
    popularity, n_users = torch.from_numpy(held_out.events.popularity.copy()), len(held_out)
    summary = score_slates(best, held_out.relevant(), (10, 20), popularity, n_users).summary(seed)
    seconds = time.perf_counter() - began
    sample = slice(0, 1000)
    seen = is_in(best[sample], held_out.query(sample, width=EVENTS).history).any()
    return {
        "users": n_users,
        "seconds": seconds,
        "threads": torch.get_num_threads(),
        "start_bytes": before,
        "peak_bytes": peak_bytes(),
        "seen_again": float(seen),
        "recall": summary.metrics["recall@20"].mean,
    }


def main(users: str, items: str, seed: str) -> None:
    """Rank and print the measurements as JSON."""
    sys.stdout.write(json.dumps(ranked(int(users), int(items), int(seed))))


if __name__ == "__main__":
    main(*sys.argv[1:])
